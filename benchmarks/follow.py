"""follow: Airflow's memory for each stage that runs, and how soon its task goes on when its container has ended.

As many pipelines as there are stages ask a database that accepts connections and answers nothing, so each `ingest`
waits in its container until the database goes away. One Airflow follows them in its tasks, the next one leaves them to
its triggerer. Memory is the proportional set size (PSS) of all of Airflow's processes with the stages running, less
what it was before.
"""

import json
import os
import re
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import psutil

from benchmarks.measure import Result
from local.airflow_api import AirflowApi
from local.services import Services
from local.supervision.state import read
from ratchet.checkout import PIPELINES, ROOT
from ratchet.contracts.environment import variable
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runs.jobs import store_label
from ratchet.store.opening import open_store

_GOAL_MIB = 10.0
_DEFER_S = "15"
_SETTLE_S = 30.0
"""Seconds between the last change of a task's state and the measurement."""
_SOURCE = """\
source:
  kind: sql
  uri: postgresql+psycopg://shop@127.0.0.1:{port}/shop
  query: select * from clicks where shown_at >= :date
  window_days: 4
"""


class _Followed(NamedTuple):
    """memory_mib: of Airflow for each stage. delays_s: from the end of each container to its task."""

    memory_mib: float
    delays_s: list[float]
    slots: int


def run(*, full: bool) -> Result:
    """Follow 20 stages for --full, else 4, in tasks and in the triggerer."""
    count = 20 if full else 4
    tasks, triggerer = _follow(count, "0"), _follow(count, _DEFER_S)
    delays = sorted(triggerer.delays_s)
    return Result(
        name="follow",
        ratio=triggerer.memory_mib,
        goal=_GOAL_MIB,
        unit="MiB of Airflow's memory for each stage",
        ours=triggerer.memory_mib,
        peer=tasks.memory_mib,
        peer_name="followed in its task",
        rows=(
            ("stages that run at once", str(count)),
            ("followed in their tasks", f"{tasks.memory_mib:.1f} MiB each, {tasks.slots} slots of workers"),
            ("left to the triggerer", f"{triggerer.memory_mib:.1f} MiB each, {triggerer.slots} slots of workers"),
            ("from the end to the task, median", f"{statistics.median(delays):.1f} s"),
            ("95th percentile", f"{delays[round(0.95 * (len(delays) - 1))]:.1f} s"),
        ),
    )


def _follow(count: int, defer_s: str) -> _Followed:
    with tempfile.TemporaryDirectory(prefix="ratchet-follow-") as folder, ExitStack() as ended:
        home = Path(folder)
        home.chmod(0o755)
        port, hang_up = ended.enter_context(_silent_database())
        for number in range(count):
            _add(home / "pipelines" / f"waits-{number}", port)
        settings = {
            variable("pipelines"): str(home / "pipelines"),
            variable("defer_seconds"): defer_s,
            variable("pool_cpu"): str(2 * count),
            variable("runner"): "docker",
        }
        if not float(defer_s):
            settings["AIRFLOW__CORE__PARALLELISM"] = str(count + 4)  # a slot each; else the four of `make serve`
        services = ended.enter_context(_services(home, settings))
        api = AirflowApi(services.airflow_url, services.user, services.password)
        names = [f"waits-{number}" for number in range(count)]
        for name in names:
            api.wait_for_dag(name)
        time.sleep(_SETTLE_S)
        before = _memory(home)
        for name in names:
            api.call("PATCH", f"/dags/{name}", {"is_paused": False})
            api.trigger(name, "bench", conf={})
        state = "deferred" if float(defer_s) else "running"
        engine, wanted = DockerRunner(), {Label.STORE: store_label(open_store(services.store).uri)}
        _until(lambda: len(engine.find(wanted)) == count and _states(api, names) == [state] * count)
        time.sleep(_SETTLE_S)
        used = _memory(home) - before
        slots = sum(one == "running" for one in _states(api, names))
        delays = _delays(api, names, engine.find(wanted), hang_up) if float(defer_s) else []
        return _Followed(used / 2**20 / count, delays, slots)


@contextmanager
def _services(home: Path, settings: dict[str, str]) -> Iterator[Services]:
    """A separate Airflow below `home`."""
    with patch.dict(os.environ, settings):
        services = Services(ROOT, home, airflow_port=0, mlflow_port=0)
        try:
            services.start()
            services.wait()
            yield services
        finally:
            services.stop()


def _add(folder: Path, port: int) -> None:
    """A pipeline whose database does not answer."""
    text = (PIPELINES / "search-ranking" / "pipeline.yaml").read_text(encoding="utf-8")
    text = re.sub(r"schedule: .*\n", "", text.replace("search-ranking", folder.name))
    text = re.sub(r"source:\n(  .*\n)+", _SOURCE.format(port=port), text)
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(text, encoding="utf-8")


@contextmanager
def _silent_database() -> Iterator[tuple[int, Callable[[], None]]]:
    """A port that accepts connections and says nothing, and what closes them all."""
    server, held = socket.create_server(("127.0.0.1", 0)), list[socket.socket]()

    def accept() -> None:
        while True:
            try:
                held.append(server.accept()[0])
            except OSError:
                return

    def hang_up() -> None:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for each in held:
            each.close()

    threading.Thread(target=accept, daemon=True).start()
    yield int(server.getsockname()[1]), hang_up


def _memory(home: Path) -> float:
    """The PSS of all processes of Airflow, in bytes."""
    known = read(home)
    assert known is not None
    roots = [server.process.pid for server in known.servers if server.process is not None and server.name != "mlflow"]
    everything = {one.pid: one for root in roots for one in _family(psutil.Process(root))}
    return float(sum(one.memory_full_info().pss for one in everything.values() if one.is_running()))


def _family(root: psutil.Process) -> list[psutil.Process]:
    return [root, *root.children(recursive=True)]


def _states(api: AirflowApi, names: list[str]) -> list[str]:
    """The state of each `ingest`."""
    return [str(api.tasks(name, "bench").get("ingest", {}).get("state")) for name in names]


def _delays(api: AirflowApi, names: list[str], containers: list[str], hang_up: Callable[[], None]) -> list[float]:
    """The seconds from the end of each container, by the engine's events, to the line of its task that goes on."""
    began = f"{time.time() - 1:.0f}"
    hang_up()
    lines = [_until(partial(_goes_on, api, name)) for name in names]
    words = ("docker", "events", "--since", began, "--until", f"{time.time() + 1:.0f}")
    form = ("--filter", "event=die", "--format", "{{json .}}")
    events = subprocess.run((*words, *form), check=True, capture_output=True, text=True).stdout.splitlines()
    died = {}
    for event in map(json.loads, events):
        if event["id"] in containers:
            died[event["Actor"]["Attributes"][Label.PIPELINE]] = event["timeNano"] / 1e9
    return [at - died[name] for name, at in zip(names, lines, strict=True)]


def _goes_on(api: AirflowApi, name: str) -> float | None:
    """When the task went on, in seconds since 1970."""
    content: Any = api.call("GET", f"/dags/{name}/dagRuns/bench/taskInstances/ingest/logs/1")["content"]
    for line in content:
        if "going on after the triggerer" in line["event"]:
            return datetime.fromisoformat(line["timestamp"]).timestamp()
    return None


def _until(asked: Callable[[], Any], limit_s: float = 900) -> Any:
    """What is asked for, once it is something true."""
    end = time.monotonic() + limit_s
    while not (found := asked()):
        if time.monotonic() > end:
            raise TimeoutError("it did not come")
        time.sleep(1)
    return found
