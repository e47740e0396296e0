"""alerts: what is lost and doubled while a receiver is away and processes are killed, and what one outage sends.

The receiver is a real HTTP server on loopback. Processes are forked and end by a real SIGKILL, before or after a call
of the delivery to the store or to the receiver, each in its turn. The clock moves by five minutes between two rounds.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from benchmarks.killed_calls import CountedStore, Kill
from benchmarks.measure import Result
from ratchet.contracts import paths
from ratchet.contracts.alerts import Alerts
from ratchet.contracts.environment import alert_variable, variable
from ratchet.contracts.errors import Unavailable
from ratchet.outbox.letter import TAKEN, Letter
from ratchet.outbox.outbox import Outbox
from ratchet.store.base import Store
from ratchet.store.file import FileStore
from tests.plugins.webhook import AWAY, THERE, Webhook

_EVERY = timedelta(minutes=5)
_AWAY_ROUNDS = 6  # of five minutes
_LASTS = 24
"""Rounds of the watch until an engine is back: two hours."""
_KILLED = 20
"""One process of so many is killed."""
_FLAPS = 72
"""Looks at a store that flaps: six hours."""
_RECEIVER = "oncall"
_EXAMPLE = Path(__file__).resolve().parents[1] / "dags" / "pipelines" / "search-ranking"


def run(*, full: bool) -> Result:
    """A thousand alerts and 200 pipelines for --full, else a hundred and 50."""
    count, pipelines = (1000, 200) if full else (200, 50)
    lost, doubled, killed = kills(count)
    away, engine = messages_of_a_lost_store(pipelines), messages_of_a_lost_engine(pipelines)
    flaps = messages_of_a_flapping_store()
    return Result(
        name="alerts",
        ratio=max(2.0 if lost else 0.0, doubled / (count / 100), max(away, engine, flaps) / 3),
        goal=1.0,
        unit="of what is allowed: 1 % doubled, 3 messages; any lost one is above it",
        ours=doubled,
        peer=count,
        peer_name="alerts",
        rows=(
            ("alerts, receiver away for 30 minutes", str(count)),
            ("processes killed", str(killed)),
            ("lost", str(lost)),
            ("doubled", str(doubled)),
            (f"messages of a lost store under {pipelines} pipelines", str(away)),
            (f"messages of a lost engine under {pipelines} pipelines", str(engine)),
            ("messages of a store that every third look of six hours finds away", str(flaps)),
        ),
    )


def kills(count: int) -> tuple[int, int, int]:
    """How many of so many alerts were lost, how many came twice, and how many processes were killed."""
    with TemporaryDirectory() as folder, Webhook().listening() as receiver:
        store, now = FileStore(Path(folder)), datetime.now(UTC)
        killed, point = 0, 0
        import_module("apprise").Apprise().add(receiver.url)  # it loads its plugins once, not in each process

        def outbox(left: int) -> Outbox:
            return _outbox(store, receiver, now, Kill(left))

        for first in range(0, count, _KILLED):
            # The last fifth is sent by the processes that make them, the others while the receiver is away.
            receiver.status = THERE if first >= count * 4 // 5 else AWAY
            died = _in_a_process(partial(_send_some, outbox, range(first, first + _KILLED), now, point))
            killed += died
            if died:  # the watch, or the next try, notices the event too
                _in_a_process(partial(_send, outbox(-1), first + _KILLED - 1, now))
            point = point + 1 if died else 0
        receiver.status = AWAY
        for _ in range(_AWAY_ROUNDS):
            now += _EVERY
            _in_a_process(partial(_deliver_due, outbox, -1))
        receiver.status = THERE
        left = 0
        while any(True for _ in outbox(-1).waiting()):
            now += _EVERY * 8
            died = _in_a_process(partial(_deliver_due, outbox, left))
            killed += died
            left = left + 1 if died and left < _MOST_POINTS else -1
        sent = receiver.titles
    lost = sum(sent[f"alert {number}"] == 0 for number in range(count))
    return lost, sum(times - 1 for times in sent.values()), killed  # each was sent at least once, or is lost


_MOST_POINTS = 12
"""The watch is killed at each of its first calls; a letter has fewer."""


def _send_some(outbox: Callable[[int], Outbox], numbers: range, now: datetime, point: int) -> None:
    """Send alerts, and be killed at call number `point` of the last one, if it has so many."""
    for number in numbers:
        _send(outbox(point if number == numbers[-1] else -1), number, now)


def _send(outbox: Outbox, number: int, now: datetime) -> None:
    """What a callback does."""
    letter = Letter(
        event=paths.alert("p", f"r{number}", "train.failure"),
        receiver=_RECEIVER,
        pipeline="p",
        occasion="failure",
        title=f"alert {number}",
        body="Cause: a test",
        kind="failure",
        made=now,
        due=now + TAKEN,
    )
    if outbox.post(letter.event, b"{}", [letter]):
        outbox.deliver(letter)


def _deliver_due(outbox: Callable[[int], Outbox], left: int) -> None:
    outbox(left).deliver_due()


def _in_a_process(do: Callable[[], object]) -> bool:
    """Do it in a forked process; whether it was killed. Raises RuntimeError if it ended in another way than well."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            do()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    if os.WEXITSTATUS(status):
        raise RuntimeError("a delivery failed; see what it printed")
    return False


def _outbox(store: Store, receiver: Webhook, now: datetime, killed: Kill) -> Outbox:
    from ratchet_airflow.alerts.delivery import send

    def counted(letter: Letter, address: str) -> bool:
        killed.count()
        return send(letter, address)

    return Outbox(
        store=cast("Store", CountedStore(store, killed)),
        installation="benchmark",
        addresses=lambda _: [receiver.url],
        send=counted,
        given_up=lambda _: None,
        now=lambda: now,
    )


def messages_of_a_lost_store(pipelines: int) -> int:
    """How many messages a receiver gets if the store is gone while so many pipelines fail, and comes back."""
    from ratchet.outbox.deadline import Deadline
    from ratchet_airflow.watch import waiting

    with _installation() as (receiver, store, clock):
        gone = _take_away(store)
        for number in range(pipelines):
            _fail(f"p{number}", Unavailable(f"{store}/runs/p{number}/r: does not answer"))
        for _ in range(3):
            assert waiting.open_outbox(Deadline(60), clock) is None
            clock.pass_by(_EVERY)
        _bring_back(store, gone)
        for _ in range(30):
            found = waiting.open_outbox(Deadline(60), clock)
            assert found is not None
            waiting.deliver(found, Deadline(60), clock)
            clock.pass_by(_EVERY)
        return sum(receiver.titles.values())


def messages_of_a_flapping_store(away: int = 1) -> int:
    """How many messages a receiver gets in six hours in which so many of three looks find the store gone."""
    from ratchet.outbox.deadline import Deadline
    from ratchet_airflow.watch import waiting

    with _installation() as (receiver, store, clock):
        for number in range(_FLAPS):
            gone = _take_away(store) if number % 3 < away else None
            found = waiting.open_outbox(Deadline(60), clock)
            assert (found is None) == (gone is not None)
            if gone is not None:
                _bring_back(store, gone)
            if found is not None:
                waiting.deliver(found, Deadline(60), clock)
            clock.pass_by(_EVERY)
        return sum(receiver.titles.values())


def _take_away(store: Path) -> Path:
    """Where it is now."""
    gone = store.with_name("gone")
    store.rename(gone)
    store.symlink_to(store)  # so that no call finds its way
    return gone


def _bring_back(store: Path, gone: Path) -> None:
    store.unlink()
    gone.rename(store)


def messages_of_a_lost_engine(pipelines: int) -> int:
    """The same if the engine does not answer: each pipeline is tried again, and recovers."""
    from ratchet.outbox.deadline import Deadline
    from ratchet_airflow.watch import waiting

    with _installation() as (receiver, store, clock):
        for number in range(pipelines):
            _fail(f"p{number}", Unavailable(f"train: the engine at unix:///run/docker.sock is silent since {number} s"))
        for number in range(_LASTS + 3):
            clock.pass_by(_EVERY)
            if number == _LASTS:
                for one in range(pipelines):
                    _recover(f"p{one}")
            waiting.deliver(FileStore(store), Deadline(60), clock)
        return sum(receiver.titles.values())


class _Clock:
    def __init__(self) -> None:
        self._ahead = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def pass_by(self, time: timedelta) -> None:
        """Let time pass."""
        self._ahead += time


@contextmanager
def _installation() -> Iterator[tuple[Webhook, Path, _Clock]]:
    """A store, its receiver, and a clock."""
    with TemporaryDirectory() as folder, Webhook().listening() as receiver:
        store, pipelines = Path(folder) / "store", Path(folder) / "pipelines"
        store.mkdir()
        (pipelines / "p0").mkdir(parents=True)
        (pipelines / "p0" / "pipeline.yaml").write_text(_pipeline())  # the watch alerts the receivers of such files
        made = {
            variable("store"): str(store),
            variable("alert_log"): str(Path(folder) / "alerts.jsonl"),
            variable("installation"): "benchmark",
            variable("pipelines"): str(pipelines),
            alert_variable(_RECEIVER): receiver.url,
        }
        before = {name: os.environ.get(name) for name in made}
        os.environ.update(made)
        try:
            yield receiver, store, _Clock()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def _pipeline() -> str:
    """The file of a pipeline that alerts the receiver."""
    lines = (_EXAMPLE / "pipeline.yaml").read_text().splitlines()
    return "\n".join([*(line for line in lines if not line.startswith("alerts:")), f"alerts: {{to: [{_RECEIVER}]}}"])


def _fail(pipeline: str, error: Exception) -> None:
    _callbacks(pipeline).on_retry({**_context(1), "exception": error})


def _recover(pipeline: str) -> None:
    _callbacks(pipeline).on_success(_context(2))


def _callbacks(pipeline: str) -> Any:
    from ratchet_airflow.alerts.callbacks import AlertCallbacks

    return AlertCallbacks(pipeline=pipeline, timezone="UTC", alerts=Alerts(to=(_RECEIVER,)))


def _context(number: int) -> dict[str, Any]:
    from types import SimpleNamespace

    task = SimpleNamespace(task_id="train", try_number=number, max_tries=3, log_url="", task=None)
    return {"ti": task, "run_id": "r"}
