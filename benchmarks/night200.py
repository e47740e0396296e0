"""night200: Airflow's memory for each stage that runs, and the queue of tasks, in one night of 200 pipelines.

Some pipelines begin before the others, and their first stage waits: their tasks are left to the triggerer. Airflow's
memory (PSS of all its processes, the median of a while) is compared with that of the same Airflow before its first run.
Then all others begin at once. Their stages are containers that publish the result of a template, which was computed
once, and end. All else is real: planning, leases, the engine, outcomes, alerts.

The delay of a task is from `queued_when` to `start_date` by Airflow's REST API: its scheduler queues a task only when
the task's pool and the executor have a free slot. What a task waits for these slots is shown as well: from
`scheduled_when` to `queued_when`.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch
from urllib.parse import urlencode

from benchmarks import no_op
from benchmarks.airflow_memory import memory, processor_seconds, steady_memory
from benchmarks.airflow_run import DAY
from benchmarks.measure import Result
from local.airflow_api import AirflowApi
from local.services import Services
from ratchet.checkout import PIPELINES, ROOT
from ratchet.contracts import paths
from ratchet.contracts.environment import variable
from ratchet.contracts.labels import Label
from ratchet.contracts.stages import STAGES, Resources
from ratchet.runners.choice import stage_image
from ratchet.samples.clicks import write
from ratchet.store.opening import open_store
from ratchet.store.publishing import find_result

_GOAL_S, _GOAL_MIB = 60.0, 10.0
_DEFER_S = "5"
_WAITING = {True: 20, False: 10}
"""How many pipelines wait, with --full and without."""
_TEMPLATE = "template"
_DAYS = 4
_LOOK_S, _STEADY_S = 2.0, 20.0
_LIMIT_S = 3600.0
_SLOTS = round(Resources().cpus)
"""Of the pool, that each stage of these pipelines takes, but for a training."""
_RUN = "bench"
_SMALLER = {
    r"schedule: .*\n": "",
    "window_days: 30": f"window_days: {_DAYS}",
    "cpus: 2": "cpus: 1",
    r"to: \[mlops\]": "to: []",
    "promote: auto": "promote: never",
    "model: {kind: dcn}": "model: {kind: linear}\n  epochs: 1",
    r"  expectations: .*\n.*\n": "",
}


class _Night(NamedTuple):
    """grown_mib: memory of each server with the stages that wait. tasks: those of the others, by Airflow's API.

    seconds: until the last of the others has ended. idle_mib: before the first run. peak_mib: with all of them.
    """

    grown_mib: dict[str, float]
    tasks: list[dict[str, Any]]
    seconds: float
    processor_s: dict[str, float]
    idle_mib: dict[str, float]
    peak_mib: dict[str, float]

    def needs(self, server: str) -> str:
        """What a server needed, in words."""
        memory = f"{self.idle_mib[server]:.0f} MiB idle, {self.grown_mib[server]:+.0f} with the stages that wait"
        seconds = f"{self.processor_s[server]:.0f} s of a core without its tasks"
        return f"{memory}, at most {self.peak_mib[server]:.0f} MiB, {seconds}"


def run(*, full: bool) -> Result:
    """200 pipelines, 20 of which wait, for --full; else 20 and 10."""
    waiting = [f"{no_op.WAITS}{number:03}" for number in range(_WAITING[full])]
    others = [f"night-{number:03}" for number in range((200 if full else 20) - len(waiting))]
    with tempfile.TemporaryDirectory(prefix="ratchet-night200-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        night = _night(home, waiting, others)
    started = [one for one in night.tasks if one["start_date"] and one["queued_when"]]
    queued = sorted(_seconds(one, "queued_when", "start_date") for one in started)
    waited = sorted(_seconds(one, "scheduled_when", "queued_when") for one in started if one["scheduled_when"])
    each = sum(night.grown_mib.values()) / len(waiting)
    return Result(
        name="night200",
        ratio=max(_high(queued) / _GOAL_S, each / _GOAL_MIB),
        goal=1.0,
        unit="of what is allowed: 60 s in the queue (95th percentile), 10 MiB for each stage that runs",
        ours=_high(queued),
        peer=each,
        peer_name="MiB of Airflow's memory for each stage that runs",
        rows=(
            ("pipelines", f"{len(waiting)} that wait, and {len(others)} at once"),
            ("memory for each stage that waits", f"{each:.1f} MiB"),
            ("tasks", f"{len(started)}, {len(started) / night.seconds:.2f} a second"),
            ("the night", f"{night.seconds:.0f} s"),
            ("queued until started", _spread(queued)),
            ("waiting for a slot before", _spread(waited)),
            *((name, night.needs(name)) for name in night.idle_mib),
        ),
    )


def _night(home: Path, waiting: list[str], others: list[str]) -> _Night:
    settings = {
        variable("pipelines"): str(home / "pipelines"),
        variable("runner"): "docker",
        variable("stage_image"): f"ratchet-no-op:{os.getpid()}",
        variable("defer_seconds"): _DEFER_S,
        # A stage that waits keeps its slots of the pool.
        variable("pool_cpu"): str(_SLOTS * len(waiting) + (os.cpu_count() or 1)),
    }
    for folder in (home / _TEMPLATE, *(home / "pipelines" / name for name in (*waiting, *others))):
        _add(folder)
    services = Services(ROOT, home, airflow_port=0, mlflow_port=0)
    for _ in write(services.data, days=_DAYS, rows_per_day=300, end=DAY, seed=0):
        pass
    with _image(settings[variable("stage_image")], _templates(home, services)), patch.dict(os.environ, settings):
        try:
            services.start()
            services.wait()
            return _measured(home, services, waiting, others)
        finally:
            (Path(services.store) / no_op.GO).touch()
            services.stop()


def _measured(home: Path, services: Services, waiting: list[str], others: list[str]) -> _Night:
    api = AirflowApi(services.airflow_url, services.user, services.password)
    for name in (*waiting, *others):
        api.wait_for_dag(name)
    idle = steady_memory(home, seconds=_STEADY_S)
    _begin(api, waiting)
    _until(lambda: _count(api, "taskInstances", state="deferred", task_id="ingest") == len(waiting))
    held = steady_memory(home, seconds=_STEADY_S)
    before = processor_seconds(home)
    with _peak(home) as peak:
        begin = time.monotonic()
        _begin(api, others)
        _until(lambda: _succeeded(api) == len(others))
        seconds = time.monotonic() - begin
    after = processor_seconds(home)
    (Path(services.store) / no_op.GO).touch()
    _until(lambda: _succeeded(api) == len(others) + len(waiting))
    tasks = [task for name in others for task in api.tasks(name, _RUN).values()]
    grown, needed = ({name: two[name] - one[name] for name in one} for one, two in ((idle, held), (before, after)))
    return _Night(grown, tasks, seconds, needed, idle, peak)


def _begin(api: AirflowApi, names: list[str]) -> None:
    for name in names:
        api.call("PATCH", f"/dags/{name}", {"is_paused": False})
        api.trigger(name, _RUN, conf={"date": DAY.isoformat()})


def _until(over: Callable[[], bool]) -> None:
    end = time.monotonic() + _LIMIT_S
    while not over():
        if time.monotonic() > end:
            raise TimeoutError(f"it did not come within {_LIMIT_S:.0f} s")
        time.sleep(_LOOK_S)


def _succeeded(api: AirflowApi) -> int:
    """How many runs have ended. Raises if one is not green."""
    if failed := _count(api, "dagRuns", state="failed"):
        raise RuntimeError(f"{failed} runs failed")
    return _count(api, "dagRuns", state="success")


def _count(api: AirflowApi, what: str, **asked: str) -> int:
    """How many runs, or tasks of them, of this benchmark there are."""
    place = "/dags/~/dagRuns" if what == "dagRuns" else f"/dags/~/dagRuns/~/{what}"
    query = urlencode({"run_id_prefix_pattern": _RUN, "limit": 1, **asked})
    return int(api.call("GET", f"{place}?{query}")["total_entries"])


def _seconds(task: dict[str, Any], first: str, last: str) -> float:
    return (datetime.fromisoformat(task[last]) - datetime.fromisoformat(task[first])).total_seconds()


def _spread(values: list[float]) -> str:
    return f"median {statistics.median(values):.1f} s, 95th percentile {_high(values):.1f} s"


def _high(values: list[float]) -> float:
    return values[round(0.95 * (len(values) - 1))]


@contextmanager
def _peak(home: Path) -> Iterator[dict[str, float]]:
    """The most memory of each server at one moment during the block."""
    most, over = memory(home), threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_S):
            for name, now in memory(home).items():
                most[name] = max(most[name], now)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def _add(folder: Path) -> None:
    """A small pipeline with the name of its folder."""
    text = (PIPELINES / "search-ranking" / "pipeline.yaml").read_text(encoding="utf-8")
    for usual, changed in {**_SMALLER, "search-ranking": folder.name}.items():
        text, found = re.subn(usual, changed, text)
        if not found:
            raise RuntimeError(f"the example has no {usual!r} any more")
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(text, encoding="utf-8")


def _templates(home: Path, services: Services) -> bytes:
    """What the stages of one night publish, by stage, as JSON."""
    settings = services.environment() | {variable("tracking_uri"): (home / "tracking").as_uri()}
    words = (str(Path(sys.executable).parent / "ratchet"), "run", str(home / _TEMPLATE), "--date", DAY.isoformat())
    ran = subprocess.run(
        (*words, "--runner", "process"), check=False, env=settings, capture_output=True, text=True, cwd=ROOT
    )
    if ran.returncode:
        raise RuntimeError(f"the template ended with {ran.returncode}: {ran.stderr[-2000:]}")
    store = open_store(services.store)
    found = {}
    for stage in STAGES:
        for prefix in {paths.published_prefix(entry.key) for entry in store.list(paths.published(_TEMPLATE, stage))}:
            if (result := find_result(store, prefix)) is not None:
                found[stage] = result.result.model_dump(mode="json", by_alias=True)
    return json.dumps({no_op.FILE: paths.last(paths.manifest("")), **found}).encode()


@contextmanager
def _image(name: str, templates: bytes) -> Iterator[None]:
    """A stage image whose `ratchet` computes nothing, until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        program = Path(no_op.__file__).read_text(encoding="utf-8")
        (context / "ratchet").write_text(f"#!/opt/ratchet/bin/python -IS\n{program}", encoding="utf-8")
        (context / "templates.json").write_bytes(templates)
        for file in context.iterdir():
            file.chmod(0o755)
        (context / "Dockerfile").write_text(
            f"FROM {stage_image(gpu=False)}\nLABEL {Label.TEST}=1\nCOPY ratchet /opt/ratchet/bin/\n"
            f"COPY templates.json {no_op.TEMPLATES}\n",
            encoding="utf-8",
        )
        _docker("build", "--quiet", "--network", "none", "--tag", name, folder)
    try:
        yield
    finally:
        _docker("rmi", "--force", name)


def _docker(*arguments: str) -> None:
    words = ("docker", *arguments)
    subprocess.run(words, check=True, capture_output=True)
