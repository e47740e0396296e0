"""A real Airflow of one's own for a benchmark: started, used, ended."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path

from demo.airflow_api import AirflowApi
from demo.services import Services
from tasks.samples.clicks import write

ROOT = Path(__file__).resolve().parents[1]
PIPELINE = "search-ranking"
DAY = date(2026, 3, 31)


class Sandbox:
    """An Airflow with the example pipelines and a month of sample clicks up to DAY."""

    def __init__(self, services: Services, api: AirflowApi) -> None:
        self.services = services
        self._api = api
        self._runs = 0

    def night(self) -> float:
        """Seconds that one run for DAY takes, start to end, as Airflow has it. Raises if it is not green."""
        self._runs += 1
        run_id = f"bench-{self._runs}"
        body = {"dag_run_id": run_id, "logical_date": None, "conf": {"date": DAY.isoformat()}}
        self._api.call("POST", f"/dags/{PIPELINE}/dagRuns", body)
        until = time.monotonic() + 600
        while time.monotonic() < until:
            run = next(run for run in self._api.runs(PIPELINE) if run["dag_run_id"] == run_id)
            if run["state"] in {"success", "failed"}:
                break
            time.sleep(0.5)
        if run["state"] != "success":
            raise RuntimeError(f"{run_id} is {run['state']}")
        start, end = (datetime.fromisoformat(run[key]) for key in ("start_date", "end_date"))
        return (end - start).total_seconds()

    def backfill(self, first: date, last: date, *, seconds: float) -> None:
        """Run all dates from first to last, and wait until each has come to its end, green or not."""
        before = {run["dag_run_id"] for run in self._api.runs(PIPELINE)}
        body = {
            "dag_id": PIPELINE,
            "from_date": f"{first}T00:00:00Z",
            "to_date": f"{last}T23:59:59Z",
            "max_active_runs": 3,
            "reprocess_behavior": "completed",
        }
        self._api.call("POST", "/backfills", body)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            runs = [run for run in self._api.runs(PIPELINE) if run["dag_run_id"] not in before]
            if len(runs) > (last - first).days and all(run["state"] in {"success", "failed"} for run in runs):
                return
            time.sleep(1)
        raise RuntimeError(f"the backfill did not end within {seconds:.0f} s")


@contextmanager
def sandbox(home: Path, *, rows_per_day: int, days: int = 30) -> Iterator[Sandbox]:
    """Start everything below `home`; end it when left."""
    services = Services(ROOT, home, airflow_port=0, mlflow_port=0)
    try:
        services.start()
        for _ in write(services.data, days=days, rows_per_day=rows_per_day, end=DAY, seed=0):
            pass
        services.wait()
        api = AirflowApi(services.airflow_url, services.user, services.password)
        api.wait_for_dag(PIPELINE)
        api.call("PATCH", f"/dags/{PIPELINE}", {"is_paused": False})
        yield Sandbox(services, api)
    finally:
        services.stop()
