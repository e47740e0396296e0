"""The store, or the keys for it, go away at each stage's start, in its middle and at its end: the night ends well.

Real tasks of Airflow's operator, without an Airflow; their stages are processes, and the store is an S3 server behind a
proxy. An outage begins with a request, and ends when the stage has failed of it or when the task waits for it.

And tries of a task are frozen at a request, and wake up when a later try has ended the stage: they change nothing.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from datetime import date
from email.message import Message
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from ratchet.contracts.environment import variable
from ratchet.contracts.loading import load
from ratchet.contracts.stages import REGULAR, Stage
from ratchet.runners import choice
from ratchet.runs.events import Event
from ratchet.runs.outcomes import outcomes
from ratchet.runs.planning import make_plan
from ratchet.runs.run_index import nights
from ratchet.store.base import Store
from ratchet.store.ledger import records
from ratchet.store.opening import open_store
from ratchet_airflow.operators import StageOperator
from tests.faults.late_tries import Frozen, LateTries, Moment
from tests.faults.tiny import write_tiny
from tests.faults.warm_stages import WarmRunner, warm_stages
from tests.plugins.test_operators import States, context
from tests.s3 import S3Server
from tests.s3_proxy import Refusal, s3_proxy
from tests.s3_tokens import Tokens

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("at-each-moment")]
DAY = date(2026, 3, 20)
KINDS = {"store": "does not answer", "keys": "answered ExpiredToken"}
"""What goes away, and what is said of it: the store, which breaks each connection; or its keys, which expire."""


class Outage:
    """What goes away at a request."""

    def __init__(self, tokens: Tokens) -> None:
        self.kind, self.lasts = "", False
        self._tokens, self._changing = tokens, threading.Lock()
        self._begins: Moment | None = None

    def begin_at(self, kind: str, moment: Moment) -> None:
        """Begin with the first request of a moment."""
        self.kind, self._begins = kind, moment

    def end(self) -> None:
        """The store answers again; there are new keys."""
        with self._changing:
            if self.lasts:
                self._tokens.renew()
            self.lasts = False

    def refuse(self, method: str, path: str, headers: "Message[str, str]") -> Refusal | None:
        """The answer to a request that is not passed on."""
        with self._changing:
            if self._begins is not None and self._begins(method, path):
                self._begins, self.lasts = None, True
                self._tokens.expire()
            if self.lasts and self.kind == "store":
                return 0, b""
        return self._tokens.refuse(method, path, headers)


class Task(StageOperator):
    """A task that says when its stage has failed."""

    on_failure: Callable[[], None] = staticmethod(lambda: None)

    def log_event(self, event: Event) -> None:
        super().log_event(event)
        if event.name == "failure":
            self.on_failure()


class SharedStates(States):
    """What Airflow keeps for a task, in a file, for tries in several processes."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def get(self, key: str) -> Any:
        return self._read().get(key)

    def set(self, key: str, value: Any) -> None:
        self._file.write_text(json.dumps({**self._read(), key: value}))

    def delete(self, key: str) -> None:
        self._file.write_text(json.dumps({name: value for name, value in self._read().items() if name != key}))

    def _read(self) -> dict[str, Any]:
        return dict(json.loads(self._file.read_text())) if self._file.exists() else {}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where stages begin as forks of one process, which saves a minute of imports."""
    with warm_stages(tmp_path_factory.mktemp("warm") / "stages") as place:
        yield place


@pytest.fixture
def late() -> Iterator[LateTries]:
    with LateTries.open() as tries:
        yield tries


@pytest.fixture
def outage(tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Outage:
    """Of a store with session tokens in a shared file. Requests are not repeated, since each repetition waits."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    return Outage(Tokens(tmp_path / "keys"))


@pytest.fixture
def store(
    tmp_path: Path,
    s3: S3Server,
    outage: Outage,
    late: LateTries,
    warm: Path,
    mlflow_database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Store]:
    """With a plan of a night."""
    uri = f"s3://{s3.bucket}/{tmp_path.name}"
    monkeypatch.setenv(variable("store"), uri)
    monkeypatch.setenv(variable("runner"), "process")

    def refuse(*request: Any) -> Refusal | None:
        return outage.refuse(*request) or late.refuse(*request)

    with s3_proxy(s3.endpoint, refuse=refuse) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        monkeypatch.setattr(choice, "planned_runner", lambda _: (WarmRunner(warm), "forked processes"))
        opened = open_store(uri)
        opened.upload(mlflow_database, "mlflow/mlflow.db")
        folder = write_tiny(tmp_path, DAY)
        spec = load(folder, {})
        make_plan(folder=folder, spec=spec, data_date=DAY, run_id="r", kind="manual", store_uri=uri, promote="auto")
        yield opened


def moments(stage: Stage) -> dict[str, Moment]:
    """The first request of the task; where the stage reads a model, or has its first output; the task's record of it."""
    reads = stage in {"evaluate", "register"}  # before they start the process that scores, which takes seconds
    middle = ("GET", "/published/tiny/train/", "weights") if reads else ("PUT", f"/published/tiny/{stage}", "")

    def request(method: str, begin: str, end: str) -> Moment:
        return lambda asked, path: asked == method and begin in path and path.endswith(end)

    return {
        "start": lambda *_: True,
        "middle": request(*middle),
        "end": request("PUT", "/runs/tiny/r/", f"/{stage}.json"),
    }


def test_each_stage_waits_for_what_goes_away_at_each_of_its_moments(store: Store, outage: Outage) -> None:
    for stage in REGULAR:
        states, said = States(), list[str]()
        for (name, moment), kind in product(moments(stage).items(), KINDS):
            outage.begin_at(kind, moment)
            task = task_of(stage, said)
            if name == "middle":  # the store is back before the task asks it again
                task.on_failure = outage.end
            with pytest.raises(AirflowRescheduleException) as waits:
                task.execute(context(states))
            assert KINDS[kind] in str(waits.value.__context__), (stage, name, kind)
            assert outage.lasts == (name != "middle"), (stage, name, kind)
            outage.end()
        task_of(stage, said).execute(context(states))
        (line,) = said  # one alert, of the first, and in one line
        assert KINDS["store"] in line
        assert "\n" not in line
        published = [entry.key for entry in store.list(f"published/tiny/{stage}/")]
        assert sum(key.endswith("/manifest.json") for key in published) == 1
    assert {ended.state for ended in outcomes(store, "tiny", "r").values()} == {"done"}
    assert len(records(store, "tiny")) == 1


def task_of(stage: Stage, said: list[str]) -> Task:
    """A task's next call. said: gets what people hear when it begins to wait."""

    def hear(_context: object, error: BaseException, step: str) -> None:
        said.append(f"{error}; {step}")

    return Task(pipeline="tiny", stage=stage, retries=2, on_outage=hear)


def test_22_a_try_that_wakes_up_after_its_successor_changes_nothing(
    store: Store, late: LateTries, tmp_path: Path
) -> None:
    """At its start, where its stage writes, and between the end of its stage, good or bad, and the record of that."""
    middles: dict[Stage, Moment] = {"ingest": writes("tables/tiny"), "train": writes("published/tiny/train")}
    for stage in REGULAR[: REGULAR.index("train") + 1]:
        tries = [Frozen(middles[stage]), Frozen(unrecorded(stage))] if stage in middles else []
        if stage == "ingest":
            fails = Frozen(unrecorded(stage), denied=writes("published/tiny/ingest"))
            tries = [Frozen(lambda *_: True), tries[0], fails, tries[1]]
        states = SharedStates(tmp_path / f"{stage}.states")
        for number, frozen in enumerate(tries, 1):
            late.begin(partial(task_of(stage, []).execute, context(states, try_number=number)), frozen)
        task_of(stage, []).execute(context(states, try_number=len(tries) + 1))
        before = reported(store)
        while late.wake_newest():
            assert reported(store) == before, stage
    assert list(store.list("leases")) == []


def writes(place: str) -> Moment:
    """The first write below a place of the store."""
    return lambda method, path: method == "PUT" and f"/{place}/" in path


def unrecorded(stage: Stage) -> Moment:
    """The look at the record of how a stage ended, once its lease is given back."""
    released: list[str] = []

    def look(method: str, path: str) -> bool:
        if method == "DELETE" and f"/leases/tiny/{stage}" in path:
            released.append(path)
        return bool(released) and path.endswith(f"/runs/tiny/r/{stage}.json")

    return look


def reported(store: Store) -> list[object]:
    """What there is of the run, its data and its results, whichever try has made and recorded it."""
    stays = ("published/", "checkpoints/", "days/", "tables/tiny/")
    index = "tables/tiny/[^/]*json"  # says when the table was looked at last
    files = {entry.key: entry.etag for entry in store.list() if entry.key.startswith(stays)}
    shown = {"state", "manifest", "content"}
    ended = {stage: outcome.model_dump(include=shown) for stage, outcome in outcomes(store, "tiny", "r").items()}
    return [{key: etag for key, etag in files.items() if not re.fullmatch(index, key)}, ended, nights(store, "tiny")]
