"""One night of many pipelines whose stages compute nothing: what `night200` and `night200-team` measure.

Some pipelines begin before the others, and their first stage waits: their tasks are left to the triggerer. The first of
them, one for each slot of the executor, make Airflow load what it keeps and begin its workers. Its memory with these is
compared with that with all of them, so that what each further stage takes is known. Then all others begin at once.
Their stages are containers that publish the result of a template, which was computed once, and end. All else is real:
planning, leases, the engine, outcomes, alerts.

The delay of a task is from `queued_when` to `start_date` by Airflow's REST API: its scheduler queues a task only when
the task's pool and the executor have a free slot. What a task waits for these slots is shown as well: from
`scheduled_when` to `queued_when`. A task that was left to the triggerer for a while has no delay: Airflow says when it
began, and when it was queued to go on.
"""

import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from benchmarks import no_op
from benchmarks.airflow_memory import steady
from benchmarks.airflow_run import DAY
from benchmarks.measure import Result
from local.airflow_api import AirflowApi
from ratchet.checkout import PIPELINES
from ratchet.contracts.stages import Resources

DAYS = 4
TEMPLATE = "template"
SLOTS = round(Resources().cpus)
"""Of the pool, that each stage of these pipelines takes, but for a training."""
_GOAL_S, _GOAL_MIB = 60.0, 10.0
_LOOK_S, _STEADY_S = 2.0, 20.0
_LIMIT_S = 7200.0
_RUN = "bench"
_SMALLER = {
    r"schedule: .*\n": "",
    "window_days: 30": f"window_days: {DAYS}",
    "cpus: 2": "cpus: 1",
    r"to: \[mlops\]": "to: []",
    "promote: auto": "promote: never",
    "model: {kind: dcn}": "model: {kind: linear}\n  epochs: 1",
    r"  expectations: .*\n.*\n": "",
}
Measure = Callable[[], Mapping[str, float]]


class Airflow(NamedTuple):
    """One that runs. slots: its tasks that run at once, each in a process that stays.

    memory: of each server in MiB. processor: the seconds of each so far. go: ends the waiting.
    """

    api: AirflowApi
    slots: int
    memory: Measure
    processor: Measure
    go: Callable[[], None]


class Night(NamedTuple):
    """once_mib: what the memory of each server grew by with the first stages that wait, one for each slot.

    each_mib: what it grew by with each further one. tasks: those of the others, by Airflow's API. seconds: until the
    last of the others has ended. idle_mib: before the first run. peak_mib: with all of them.
    """

    once_mib: dict[str, float]
    each_mib: dict[str, float]
    tasks: list[dict[str, Any]]
    seconds: float
    processor_s: dict[str, float]
    idle_mib: dict[str, float]
    peak_mib: dict[str, float]

    def needs(self, server: str) -> str:
        """What a server needed, in words."""
        memory = f"{self.idle_mib[server]:.0f} MiB idle, {self.once_mib[server]:+.0f} with the first stages that wait"
        more = f"{self.each_mib[server]:+.1f} with each further one, at most {self.peak_mib[server]:.0f} MiB"
        return f"{memory}, {more}, {self.processor_s[server]:.0f} s of a core"


def names(pipelines: int, waiting: int) -> tuple[list[str], list[str]]:
    """The names of those that wait, and of the others."""
    return [f"{no_op.WAITS}{one:03}" for one in range(waiting)], [f"night-{n:03}" for n in range(pipelines - waiting)]


def add(folder: Path) -> None:
    """A small pipeline with the name of its folder."""
    text = (PIPELINES / "search-ranking" / "pipeline.yaml").read_text(encoding="utf-8")
    for usual, changed in {**_SMALLER, "search-ranking": folder.name}.items():
        text, found = re.subn(usual, changed, text)
        if not found:
            raise RuntimeError(f"the example has no {usual!r} any more")
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(text, encoding="utf-8")


def measure(airflow: Airflow, waiting: list[str], others: list[str]) -> Night:
    """The night. Raises if a run is not green."""
    api = airflow.api
    for name in (*waiting, *others):
        api.wait_for_dag(name, seconds=600)
    idle = steady(airflow.memory, seconds=_STEADY_S)
    first, further = waiting[: airflow.slots], waiting[airflow.slots :]
    with_first = _with_more(airflow, first, len(first))
    with_all = _with_more(airflow, further, len(waiting))
    before = airflow.processor()
    with _peak(airflow.memory) as peak:
        begin = time.monotonic()
        _begin(api, others)
        _until(api, lambda: _succeeded(api) == len(others))
        seconds = time.monotonic() - begin
    after = airflow.processor()
    airflow.go()
    _until(api, lambda: _succeeded(api) == len(others) + len(waiting))
    tasks = [task for name in others for task in api.tasks(name, _RUN).values()]
    each = {name: grown / len(further) for name, grown in _less(with_all, with_first).items()}
    return Night(_less(with_first, idle), each, tasks, seconds, _less(after, before), idle, peak)


def _with_more(airflow: Airflow, more: list[str], waiting: int) -> Mapping[str, float]:
    """The memory of each server once some more pipelines wait, which makes so many."""
    _begin(airflow.api, more)
    _until(airflow.api, lambda: _count(airflow.api, "taskInstances", state="deferred", task_id="ingest") == waiting)
    return steady(airflow.memory, seconds=_STEADY_S)


def result(name: str, night: Night, waiting: list[str], others: list[str]) -> Result:
    """What the night says about the goals."""
    started = [one for one in night.tasks if one["start_date"] and one["queued_when"]]
    once = [one for one in started if _seconds(one, "queued_when", "start_date") >= 0]
    queued = sorted(_seconds(one, "queued_when", "start_date") for one in once)
    waited = sorted(_seconds(one, "scheduled_when", "queued_when") for one in once if one["scheduled_when"])
    each = sum(night.each_mib.values())
    return Result(
        name=name,
        ratio=max(_high(queued) / _GOAL_S, each / _GOAL_MIB),
        goal=1.0,
        unit="of what is allowed: 60 s in the queue (95th percentile), 10 MiB for each stage that runs",
        ours=_high(queued),
        peer=each,
        peer_name="MiB of Airflow's memory for each stage that runs",
        rows=(
            ("pipelines", f"{len(waiting)} that wait, and {len(others)} at once"),
            ("memory for each stage that waits", f"{each:.1f} MiB, and {sum(night.once_mib.values()):.0f} MiB once"),
            ("tasks", f"{len(started)}, {len(started) / night.seconds:.2f} a second"),
            ("tasks among them that were left to the triggerer, without a delay", str(len(started) - len(once))),
            ("the night", f"{night.seconds:.0f} s"),
            ("queued until started", _spread(queued)),
            ("waiting for a slot before", _spread(waited)),
            *((server, night.needs(server)) for server in night.idle_mib),
        ),
    )


def _begin(api: AirflowApi, pipelines: list[str]) -> None:
    for name in pipelines:
        api.call("PATCH", f"/dags/{name}", {"is_paused": False})
        api.trigger(name, _RUN, conf={"date": DAY.isoformat()})


def _until(api: AirflowApi, over: Callable[[], bool]) -> None:
    """Raises if a run fails meanwhile."""
    end = time.monotonic() + _LIMIT_S
    while not over():
        if failed := _count(api, "dagRuns", state="failed"):
            raise RuntimeError(f"{failed} runs failed")
        if time.monotonic() > end:
            raise TimeoutError(f"it did not come within {_LIMIT_S:.0f} s")
        time.sleep(_LOOK_S)


def _succeeded(api: AirflowApi) -> int:
    return _count(api, "dagRuns", state="success")


def _count(api: AirflowApi, what: str, **asked: str) -> int:
    """How many runs, or tasks of them, of this benchmark there are."""
    place = "/dags/~/dagRuns" if what == "dagRuns" else f"/dags/~/dagRuns/~/{what}"
    query = urlencode({"run_id_prefix_pattern": _RUN, "limit": 1, **asked})
    return int(api.call("GET", f"{place}?{query}")["total_entries"])


def _less(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: after[name] - before[name] for name in before}


def _seconds(task: dict[str, Any], first: str, last: str) -> float:
    return (datetime.fromisoformat(task[last]) - datetime.fromisoformat(task[first])).total_seconds()


def _spread(values: list[float]) -> str:
    return f"median {statistics.median(values):.1f} s, 95th percentile {_high(values):.1f} s"


def _high(values: list[float]) -> float:
    return values[round(0.95 * (len(values) - 1))]


@contextmanager
def _peak(memory: Measure) -> Iterator[dict[str, float]]:
    """The most memory of each server at one moment during the block."""
    most, over = dict(memory()), threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_S):
            for name, now in memory().items():
                most[name] = max(most[name], now)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()
