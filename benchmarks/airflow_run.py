"""Start, use and stop a real, separate Airflow for a benchmark."""

import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from local.airflow_api import AirflowApi
from local.services import Services
from ratchet.checkout import ROOT
from ratchet.contracts import paths
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.runs.outcomes import outcomes
from ratchet.samples.clicks import write
from ratchet.store.opening import open_store
from ratchet_airflow.run_id import store_run_id

PIPELINE = "search-ranking"
DAY = date(2026, 3, 31)


class Night(NamedTuple):
    """A green run: the seconds from its start to its end in Airflow, and the outcomes of its stages."""

    seconds: float
    outcomes: dict[Stage, Outcome]


class Sandbox:
    """An Airflow with the example pipelines and a month of sample clicks up to DAY."""

    def __init__(self, services: Services, api: AirflowApi) -> None:
        self.services = services
        self._api = api
        self._runs = 0

    def night(self) -> Night:
        """Make one run for DAY. Raises if it is not green."""
        self._runs += 1
        run_id = f"bench-{self._runs}"
        body = {"dag_run_id": run_id, "logical_date": None, "conf": {"date": DAY.isoformat()}}
        self._api.call("POST", f"/dags/{PIPELINE}/dagRuns", body)
        run = self._ended("dag_run_id", run_id)
        if run["state"] != "success":
            raise RuntimeError(f"{run_id} is {run['state']}")
        start, end = (datetime.fromisoformat(run[key]) for key in ("start_date", "end_date"))
        ended = outcomes(open_store(self.services.store), PIPELINE, store_run_id(run_id, self.services.installation))
        return Night((end - start).total_seconds(), ended)

    def switch_on(self) -> None:
        """Switch the pipeline on, and end the scheduled night, which has no data and would wait for them."""
        self._api.wait_for_dag(PIPELINE)
        self._api.call("PATCH", f"/dags/{PIPELINE}", {"is_paused": False})
        night = self._run("run_type", "scheduled", {"queued", "running"})
        self._api.call("PATCH", f"/dags/{PIPELINE}/dagRuns/{quote(night['dag_run_id'], safe='')}", {"state": "failed"})
        self._ended("run_type", "scheduled")

    def _ended(self, key: str, value: str) -> dict[str, Any]:
        return self._run(key, value, {"success", "failed"})

    def _run(self, key: str, value: str, states: Container[str]) -> dict[str, Any]:
        """The run whose key has this value, once it is in one of these states. Raises if it is not in ten minutes."""
        until = time.monotonic() + 600
        while time.monotonic() < until:
            for run in self._api.runs(PIPELINE):
                if run[key] == value and run["state"] in states:
                    return run
            time.sleep(0.5)
        raise RuntimeError(f"no run whose {key} is {value} was {states} within ten minutes")

    def backfill(self, first: date, last: date, *, seconds: float) -> None:
        """Run all dates from first to last, and wait for the summary that Ratchet sends after the last one."""
        body = {
            "dag_id": PIPELINE,
            "from_date": f"{first}T00:00:00Z",
            "to_date": f"{last}T23:59:59Z",
            "max_active_runs": 3,
            "reprocess_behavior": "completed",
        }
        number = self._api.call("POST", "/backfills", body)["id"]
        store, run_id = open_store(self.services.store), store_run_id(f"backfill-{number}", self.services.installation)
        summary = paths.alerts(PIPELINE, run_id)
        until = time.monotonic() + seconds
        while not any(store.list(summary)):
            if time.monotonic() > until:
                raise RuntimeError(f"the backfill sent no summary within {seconds:.0f} s")
            time.sleep(1)


@contextmanager
def sandbox(home: Path, *, rows_per_day: int, days: int = 30) -> Iterator[Sandbox]:
    """Start everything below `home`; stop it at the end."""
    services = Services(ROOT, home, airflow_port=0, mlflow_port=0)
    try:
        services.start()
        for _ in write(services.data, days=days, rows_per_day=rows_per_day, end=DAY, seed=0):
            pass
        services.wait()
        airflow = Sandbox(services, AirflowApi(services.airflow_url, services.user, services.password))
        airflow.switch_on()
        yield airflow
    finally:
        services.stop()
