"""A real Airflow under test: the demo's servers with a state, a store and pipelines of their own."""

import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from unittest.mock import patch
from urllib.request import Request, urlopen

from local.airflow_api import AirflowApi
from local.services import Services
from local.supervision.state import ServerState, read
from ratchet.contracts.labels import Label
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import Stage
from ratchet.runners.docker import DockerRunner
from ratchet.runs.outcomes import outcomes
from ratchet.runs.planning import load_plan
from ratchet.store.opening import open_store
from tests.ports import hold
from tests.waiting import until

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
ENDED = ("success", "failed")
RUNS_S = 400
"""A run takes 20 s where nothing happens, and minutes on a busy machine; a lost task is noticed within 70."""
EXPECTATIONS = """\
  expectations:                # any great-expectations expectation by its name
    - {type: expect_column_median_to_be_between, column: price, min_value: 1, max_value: 500}
"""
"""Of search-ranking. Their library takes seconds to load, and `make demo`'s nights have them."""
_NOW = datetime.now(UTC)
YESTERDAY = _NOW.date() - timedelta(days=1)
"""The newest day of data. It stays the same when midnight passes while tests run."""
NIGHTLY = 'cron: "0 2 * * *"'
JUST_NOW = f'cron: "0 {_NOW.hour} * * *"'
"""Instead of NIGHTLY: a time that came within the hour, so that it does not come again while tests run."""
_QUICK = {
    # Several Airflows share few cores here; parsing every four seconds took a tenth of what the suite takes. A change
    # is parsed at once (Installation.parse).
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.7",
    "AIRFLOW__API__AUTO_REFRESH_INTERVAL": "10",  # of an open page
}

RUNNING: list["Installation"] = []
"""Those of this process."""


class Installation:
    """Starts, asks and ends one Airflow. Everything that it makes lies in `home`."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        self.home = home
        self.pipelines = home / "pipelines"
        self.pipelines.mkdir(parents=True)
        self.services = Services(ROOT, home, airflow_port=0, mlflow_port=0)
        self._settings = {**_QUICK, "RATCHET_PIPELINES": str(self.pipelines), **settings}
        self._api: AirflowApi | None = None
        self._held: list[socket.socket] = []

    def start(self) -> None:
        """Start the servers and wait until they answer."""
        RUNNING.append(self)
        self._held = [hold(port) for port in self.services._ports().values()]
        with self._environment():
            self.services.start()
            self.services.wait()

    def stop(self) -> None:
        """End what was started, and only that."""
        self.services.stop()
        while self._held:
            self._held.pop().close()
        if self in RUNNING:
            RUNNING.remove(self)

    def server(self, name: str) -> ServerState:
        """The state of one of the servers."""
        known = read(self.home)
        assert known is not None
        return next(server for server in known.servers if server.name == name)

    def running(self, name: str, *, restarts: int) -> ServerState:
        """Wait until a server runs that was started again so many times."""

        def found() -> ServerState | None:
            server = self.server(name)
            return server if (server.state, server.restarts) == ("running", restarts) else None

        return self.until(found, seconds=150)

    @property
    def api(self) -> AirflowApi:
        """A logged-in client."""
        if self._api is None:
            self._api = AirflowApi(self.services.airflow_url, self.services.user, self.services.password)
        return self._api

    def add(self, name: str, text: str, code: Mapping[str, str] = MappingProxyType({})) -> None:
        """Write a pipeline's file, or replace it, with code beside it. Airflow notices within seconds."""
        folder = self.pipelines / name
        folder.mkdir(exist_ok=True)
        for file, written in {**code, "pipeline.yaml": text}.items():
            (folder / file).write_text(written, encoding="utf-8")
        if self in RUNNING:
            self.parse()

    def parse(self) -> None:
        """Have Airflow parse every DAG file now, and not when its turn comes."""
        wanted = [(uuid.uuid4().hex, file.name) for file in sorted((ROOT / "dags").glob("*.py"))]
        with self._database() as database:
            database.executemany("INSERT INTO dag_priority_parsing_request VALUES (?, 'dags-folder', ?)", wanted)

    def unpause(self, dag_id: str) -> None:
        """Switch a DAG on, once Airflow knows it."""
        self.api.wait_for_dag(dag_id, seconds=180)
        self.api.call("PATCH", f"/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, **conf: Any) -> str:
        """Trigger a run by REST, without a logical date; its id, which is like those that Airflow gives."""
        run_id = f"manual__{datetime.now(UTC).isoformat()}"
        self.api.trigger(dag_id, run_id, conf=conf)
        return run_id

    def backfill(self, dag_id: str, first: str, last: str, *more: str) -> list[str]:
        """`airflow backfill create`, as a person types it; the ids of the runs that it made, oldest date first."""
        self.until_no_backfill(dag_id)
        before = {run["dag_run_id"] for run in self.api.runs(dag_id)}
        self.command("backfill", "create", "--dag-id", dag_id, "--from-date", first, "--to-date", last, *more)
        return [run["dag_run_id"] for run in self.api.runs(dag_id) if run["dag_run_id"] not in before]

    def until_no_backfill(self, dag_id: str) -> None:
        """Airflow takes one at a time, and closes one some while after its last run has ended."""
        self.until(lambda: all(each["completed_at"] for each in self._backfills(dag_id)))

    def _backfills(self, dag_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.call("GET", f"/backfills?dag_id={dag_id}")["backfills"]
        return found

    def command(self, *words: str) -> str:
        """What `airflow ...` prints on standard output."""
        return self.typed("airflow", *words)

    def typed(self, program: str, *words: str) -> str:
        """What a program prints on standard output that is typed beside its servers."""
        with self._environment():
            environment = self.services.environment()
        done = subprocess.run(
            [str(Path(sys.executable).parent / program), *words],
            env=environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def night(self, pipeline: str) -> str:
        """Switch a pipeline on; the run that its schedule makes at once."""
        self.unpause(pipeline)
        return self.until(lambda: next((run["dag_run_id"] for run in self.api.runs(pipeline)), None), seconds=180)

    def until_running(self, pipeline: str, run_id: str, task: str) -> None:
        """Wait until a task runs, which has to last for longer than a look at it: one that has ended fails the test."""

        def running() -> bool:
            state = self.api.tasks(pipeline, run_id).get(task, {}).get("state")
            assert state not in ENDED, f"{task} of {run_id} is {state}: it ended before it was seen running"
            return state == "running"

        self.until(running, seconds=RUNS_S)

    def containers(self, pipeline: str, run_id: str) -> list[str]:
        """The containers of a run's training, running or ended."""
        plan = self.plan(pipeline, run_id)
        return DockerRunner().find({Label.RUN: plan.run_id, Label.STAGE: "train"})

    def until_ticking(self, pipeline: str, run_id: str) -> str:
        """Wait until the training is under way; its container."""
        self.until_running(pipeline, run_id, "train")
        self.until(lambda: ticks(self.log(pipeline, run_id, "train")), seconds=120)
        (container,) = self.containers(pipeline, run_id)
        return container

    def wait(self, dag_id: str, run_id: str, *, seconds: float = 300) -> dict[str, str]:
        """Wait until a run has ended; the states of its tasks, and its own under `run`."""

        def states() -> dict[str, str]:
            return {name: str(task["state"]) for name, task in self.api.tasks(dag_id, run_id).items()}

        def ended() -> str | None:
            state = str(self.api.run(dag_id, run_id)["state"])
            return state if state in ENDED else None

        try:
            state = until(ended, seconds=seconds, every=1)
        except AssertionError as error:
            raise AssertionError(f"{run_id} did not end within {seconds} s: {states()}") from error
        return {"run": state, **states()}

    def until(self, asked: Callable[[], T | None], *, seconds: float = 180) -> T:
        """Ask again and again until there is an answer, something true; the answer."""
        return until(asked, seconds=seconds, every=0.5)

    def log(self, dag_id: str, run_id: str, task_id: str, *, attempt: int = 1, share: int = -1) -> str:
        """A task's log, as the UI shows it, a line each."""
        path = f"/dags/{dag_id}/dagRuns/{run_id.replace('+', '%2B')}/taskInstances/{task_id}/logs/{attempt}?map_index={share}"
        content = self.api.call("GET", path)["content"]
        return "\n".join(f"{line.get('level', '')} {line['event']}" for line in content)

    def plan(self, dag_id: str, run_id: str) -> RunPlan:
        """What a run set out to do, from the store."""
        from ratchet_airflow.run_id import store_run_id

        return load_plan(str(self.services.store), dag_id, store_run_id(run_id, self.services.installation))

    def outcomes(self, dag_id: str, run_id: str) -> dict[Stage, Outcome]:
        """How the stages of a run ended, from the store."""
        return outcomes(open_store(str(self.services.store)), dag_id, self.plan(dag_id, run_id).run_id)

    def hours_pass(self, run_id: str, hours: int) -> None:
        """Move all that happened in a run so far into the past, in Airflow's database, as if hours had gone by."""
        moved = {
            "dag_run": ("queued_at", "start_date"),
            "task_instance": ("queued_dttm", "scheduled_dttm", "start_date", "end_date"),
        }
        with self._database() as database:
            for table, moments in moved.items():
                changes = ", ".join(
                    f"{at} = strftime('%Y-%m-%d %H:%M:%f', {at}, '-{hours} hours') || '000'" for at in moments
                )
                assert database.execute(f"UPDATE {table} SET {changes} WHERE run_id = ?", (run_id,)).rowcount > 0

    def lapse(self, run_id: str, task_id: str) -> None:
        """Move the moment until which a person may answer into the past, in Airflow's database."""
        change = "UPDATE task_instance SET trigger_timeout = '2000-01-01 00:00:00.000000'"
        of = "WHERE run_id = ? AND task_id = ? AND state = 'awaiting_input'"

        def lapsed() -> bool | None:
            with self._database() as database:
                return database.execute(f"{change} {of}", (run_id, task_id)).rowcount == 1 or None

        self.until(lapsed)

    def alerts(self) -> list[dict[str, str]]:
        """Every alert so far, from the log of alerts."""
        file = self.services.airflow_home / "alerts.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []

    def get(self, path: str, *, logged_in: bool = True) -> tuple[Mapping[str, str], str]:
        """Headers and body of a page of Airflow's server. Raises HTTPError."""
        headers = {"Authorization": self.api._client.headers["Authorization"]} if logged_in else {}
        with urlopen(Request(self.services.airflow_url + path, headers=headers), timeout=30) as response:
            return dict(response.headers), response.read().decode()

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Airflow's own, for one change."""
        with closing(sqlite3.connect(self.services.airflow_home / "airflow.db", timeout=60)) as database, database:
            yield database

    @contextmanager
    def _environment(self) -> Iterator[None]:
        with patch.dict(os.environ, self._settings):
            yield


def ticks(log: str) -> list[int]:
    """The steps that a log tells of, in its order."""
    return [int(found) for found in re.findall(r"tick (\d+)", log)]
