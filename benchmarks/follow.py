"""follow: Airflow's memory for each stage that runs, and how soon its task goes on when its container has ended.

As many pipelines as there are stages ask a database that accepts connections and answers nothing, so each `ingest`
waits in its container until the database goes away. One Airflow follows them in its tasks, the next one leaves them to
its triggerer, and the last one to the follower of its host, as a GPU host of the team set-up does. Memory is the
proportional set size (PSS) of all of Airflow's processes, and of that follower, the median of half a minute each. What
comes once, with the first stages, one for each slot of a worker, is not counted again for each further one.
"""

import json
import os
import re
import socket
import statistics
import subprocess
import sys
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

from benchmarks.airflow_memory import memory, steady
from benchmarks.measure import Result
from local.airflow_api import AirflowApi
from local.services import Services
from ratchet.checkout import PIPELINES, ROOT
from ratchet.contracts.environment import variable
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runs.jobs import store_label
from ratchet.store.opening import open_store

_GOAL_MIB = 10.0
_DEFER_S = "5"
_ONCE = 4
"""As many as `make serve` has slots."""
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
    """memory_mib: of Airflow for each further stage. once_mib: what came with the first ones.

    grown_mib: since then, of each server. delays_s: from a container's end to its task. slots: of workers, taken.
    """

    memory_mib: float
    once_mib: float
    grown_mib: dict[str, float]
    delays_s: list[float]
    slots: int


def run(*, full: bool) -> Result:
    """Follow 20 stages for --full, else 8, in tasks, in the triggerer, and in the follower of a host."""
    count = 20 if full else 8
    tasks, triggerer, host = _follow(count, "0"), _follow(count, _DEFER_S), _follow(count, _DEFER_S, is_host=True)
    worst = max(triggerer, host, key=lambda one: one.memory_mib)
    return Result(
        name="follow",
        ratio=worst.memory_mib,
        goal=_GOAL_MIB,
        unit="MiB of Airflow's memory for each stage",
        ours=worst.memory_mib,
        peer=tasks.memory_mib,
        peer_name="followed in its task",
        rows=(
            ("stages that run at once", str(count)),
            ("followed in their tasks", f"{tasks.memory_mib:.1f} MiB for each further one, {tasks.slots} slots"),
            *_rows("left to the triggerer", triggerer),
            *_rows("left to the follower of a host", host),
        ),
    )


def _rows(what: str, followed: _Followed) -> Iterator[tuple[str, str]]:
    delays = sorted(followed.delays_s)
    each = f"{followed.memory_mib:.1f} MiB for each further one"
    yield what, f"{each}, {followed.once_mib:.0f} MiB once, {followed.slots} slots of workers"
    yield from ((f"  {name}", f"{grown:+.1f} MiB with all further ones") for name, grown in followed.grown_mib.items())
    yield "  from the end to the task, median", f"{statistics.median(delays):.1f} s"
    yield "  95th percentile", f"{delays[round(0.95 * (len(delays) - 1))]:.1f} s"


def _follow(count: int, defer_s: str, *, is_host: bool = False) -> _Followed:
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
        if is_host:
            settings[variable("follower")] = "host"
        services = ended.enter_context(_services(home, settings))
        follower = ended.enter_context(_follower(services)) if is_host else None

        def sizes() -> dict[str, float]:
            own = {} if follower is None else {"follower": follower.memory_full_info().pss / 2**20}
            return {**memory(home), **own}

        api = AirflowApi(services.airflow_url, services.user, services.password)
        names = [f"waits-{number}" for number in range(count)]
        for name in names:
            api.wait_for_dag(name)
        time.sleep(_SETTLE_S)
        state = "deferred" if float(defer_s) else "running"
        engine, wanted = DockerRunner(), {Label.STORE: store_label(open_store(services.store).uri)}

        def begun(some: list[str], so_far: int) -> dict[str, float]:
            """The memory once these have begun, too."""
            for name in some:
                api.call("PATCH", f"/dags/{name}", {"is_paused": False})
                api.trigger(name, "bench", conf={})
            _until(lambda: _states(api, names[:so_far]) == [state] * so_far and len(engine.find(wanted)) == so_far)
            return steady(sizes, seconds=_SETTLE_S)

        at_first = steady(sizes, seconds=_SETTLE_S)
        before = begun(names[:_ONCE], _ONCE)
        after = begun(names[_ONCE:], count)
        grown = {name: after[name] - before[name] for name in after}
        slots = sum(one == "running" for one in _states(api, names))
        delays = _delays(api, names, engine.find(wanted), hang_up) if float(defer_s) else []
        once = sum(before.values()) - sum(at_first.values())
        return _Followed(sum(grown.values()) / (count - _ONCE), once, grown, delays, slots)


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


@contextmanager
def _follower(services: Services) -> Iterator[psutil.Process]:
    """The follower of this host, for an Airflow."""
    words = (sys.executable, "-m", "ratchet_airflow.follower")
    with subprocess.Popen(words, env=services.running_environment()) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


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


def _states(api: AirflowApi, names: list[str]) -> list[str]:
    """The state of each `ingest`. Raises if one has failed."""
    found = [api.tasks(name, "bench") for name in names]
    if failed := {
        task for tasks in found for task, said in tasks.items() if said["state"] in {"failed", "up_for_retry"}
    }:
        raise RuntimeError(f"{', '.join(sorted(failed))} failed")
    return [str(tasks.get("ingest", {}).get("state")) for tasks in found]


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
