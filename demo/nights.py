"""Two nights of the search-ranking example: the first has no baseline, the second has the first as its champion."""

import time
from datetime import UTC, date, datetime, timedelta
from typing import Any

from croniter import croniter
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from local.airflow_api import AirflowApi
from local.services import Services
from ratchet.cli.pipelines import find
from ratchet.contracts import summaries
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.loading import load
from ratchet.runs.local_run import page_of
from ratchet.runs.outcomes import outcomes
from ratchet.samples.clicks import write
from ratchet.store.opening import open_store
from ratchet_airflow.run_id import store_run_id

PIPELINE = "search-ranking"
_WINDOW_DAYS = 30
_RUN_S = 900
_TASKS = ("plan", "ingest", "validate", "features", "train", "evaluate", "register", "report")
_COLOURS = {"success": "green", "failed": "bold red", "running": "bold", "skipped": "yellow", "up_for_retry": "yellow"}


class Nights:
    """Brings the servers up and takes the example through two nights."""

    def __init__(self, services: Services, console: Console, *, rows_per_day: int) -> None:
        self._services = services
        self._console = console
        self._rows_per_day = rows_per_day

    def run(self) -> bool:
        """Whether both nights ended green."""
        self._say("starting MLflow and Airflow on loopback")
        self._services.start()
        tick = self._last_tick()
        last = tick.date() - timedelta(days=1)
        self._say(f"making {_WINDOW_DAYS + 1} days of sample clicks up to {last}")
        for _ in write(self._services.data, days=_WINDOW_DAYS + 1, rows_per_day=self._rows_per_day, end=last, seed=0):
            pass
        self._say("waiting for the servers")
        self._services.wait()
        api = AirflowApi(self._services.airflow_url, self._services.user, self._services.password)
        api.wait_for_dag(PIPELINE)
        runs = self._start(api, tick)
        states = [self._watch(api, day, run_id) for day, run_id in runs]
        for line in self._services.addresses():
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
        return all(state == "success" for state in states)

    def _say(self, what: str) -> None:
        self._console.print(f"demo: {what}", highlight=False, markup=False, soft_wrap=True)

    def _last_tick(self) -> datetime:
        """When the schedule fired last; its run is about the day before."""
        schedule = load(find(PIPELINE)).schedule
        if schedule is None:
            raise Unavailable(f"{PIPELINE} has no schedule", remedy="give it one")
        tick: datetime = croniter(schedule.cron, datetime.now(UTC)).get_prev(datetime)
        return tick

    def _start(self, api: AirflowApi, tick: datetime) -> list[tuple[date, str]]:
        """Have both nights run; (data date, run id) of each.

        In a new Airflow the second night is the one that the schedule makes by itself as soon as the DAG is switched
        on; the first is triggered before, dated before that one, so that it goes first. Later both are triggered.
        """
        last = tick.date() - timedelta(days=1)
        before = last - timedelta(days=1)
        first = not api.runs(PIPELINE)
        runs = [(before, self._trigger(api, before, tick - timedelta(hours=1) if first else None))]
        if not first:
            runs.append((last, self._trigger(api, last, None)))
        api.call("PATCH", f"/dags/{PIPELINE}", {"is_paused": False})
        if first:
            runs.append((last, self._scheduled(api, last)))
        return runs

    def _trigger(self, api: AirflowApi, day: date, due: datetime | None) -> str:
        """Trigger a run for a date as the form does; due: since when it could have run. Its id."""
        run_id = f"demo-{day}-{datetime.now(UTC):%H%M%S}"
        after = due.isoformat() if due else None
        api.trigger(PIPELINE, run_id, run_after=after, conf={"date": day.isoformat()})
        return run_id

    def _scheduled(self, api: AirflowApi, day: date) -> str:
        """The run that the schedule makes for a day, once the scheduler has made it."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for run in api.runs(PIPELINE):
                if run["run_type"] == "scheduled" and run.get("partition_key") == day.isoformat():
                    return str(run["dag_run_id"])
            time.sleep(0.5)
        raise Unavailable(f"the scheduler made no run for {day}", remedy=f"see {self._services.home}/scheduler.log")

    def _watch(self, api: AirflowApi, day: date, run_id: str) -> str:
        """Show a run's tasks until it ends; its state."""
        until = time.monotonic() + _RUN_S
        state = "queued"
        with Live(console=self._console, refresh_per_second=4, transient=not self._console.is_terminal) as live:
            while state in {"queued", "running"}:
                if time.monotonic() > until:
                    raise Unavailable(f"{run_id} did not end within {_RUN_S} s", remedy="see it in Airflow's UI")
                time.sleep(0.5)
                state = api.run(PIPELINE, run_id)["state"]
                live.update(_table(f"night of {day}: {state}", api.tasks(PIPELINE, run_id)))
        if not self._console.is_terminal:
            self._console.print(_table(f"night of {day}: {state}", api.tasks(PIPELINE, run_id)))
        self._verdict(run_id)
        return state

    def _verdict(self, run_id: str) -> None:
        store = open_store(self._services.store)
        ended = outcomes(store, PIPELINE, store_run_id(run_id))
        evaluate, register = ended.get("evaluate"), ended.get("register")
        if evaluate and evaluate.result:
            judged = summaries.judgement(evaluate.result)
            candidate = judged.candidate_metrics[judged.metric]
            baseline = judged.baseline_metrics[judged.metric]
            self._say(f"{judged.verdict}: {judged.explanation}")
            self._say(f"{judged.metric}: candidate {candidate:.4f}, {judged.baseline_kind} {baseline:.4f}")
        if register and register.result:
            registered = summaries.registration(register.result)
            where = "in production" if registered.promoted else f"not in production: {registered.withheld}"
            self._say(f"model {registered.model} version {registered.version}, {where}")
        if page := page_of(store, ended):
            self._say(f"report {page}")


def _table(title: str, tasks: dict[str, dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("task", "state", "try", "seconds"):
        table.add_column(heading, justify="right" if heading in {"try", "seconds"} else "left")
    for name in _TASKS:
        task = tasks.get(name, {})
        state = task.get("state") or ""
        seconds = f"{task['duration']:.1f}" if task.get("duration") else ""
        table.add_row(name, Text(state, style=_COLOURS.get(state, "")), str(task.get("try_number") or ""), seconds)
    return table
