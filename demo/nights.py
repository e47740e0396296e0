"""Three nights of the search-ranking example: a first model, a better one a week later, and a poisoned day."""

import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from croniter import croniter
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo import days
from local.airflow_api import AirflowApi
from local.services import Services
from ratchet.cli.pipelines import find
from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.loading import load
from ratchet.contracts.stages import REGULAR
from ratchet.runs.local_run import page_of
from ratchet.runs.outcomes import outcomes
from ratchet.store.address import address
from ratchet.store.base import Store
from ratchet.store.ledger import champion
from ratchet.store.opening import open_store
from ratchet_airflow.run_id import store_run_id

PIPELINE = "search-ranking"
_RUN_S = 900

_COLOURS = {"success": "green", "failed": "bold red", "running": "bold", "skipped": "yellow", "up_for_retry": "yellow"}


class Nights:
    """Start the servers and run the nights of the example."""

    def __init__(self, services: Services, console: Console) -> None:
        self._services = services
        self._console = console

    def run(self) -> bool:
        """Run the nights; True for two verdicts of promote and one refused day."""
        tick = self._last_tick()
        last = tick.date() - timedelta(days=1)
        self._forget_other_dates(last)
        self._say("starting MLflow and Airflow on loopback")
        self._services.start()
        self._say(f"making {days.COUNT} days of sample clicks up to {last}, the last one poisoned")
        for _ in days.write(self._services.data, last=last):
            pass
        self._say("waiting for the servers")
        self._services.wait()
        api = AirflowApi(self._services.airflow_url, self._services.user, self._services.password)
        api.wait_for_dag(PIPELINE)
        runs = self._start(api, tick)
        ended = [self._watch(api, day, run_id) for day, run_id in runs]
        store = open_store(self._services.store)
        for line in summarise(store, [self._stored(run_id) for _, run_id in runs], refused=ended[-1] == "refused"):
            self._say(line)
        for line in self._services.addresses():
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
        return ended == ["promote", "promote", "refused"]

    def _forget_other_dates(self, last: date) -> None:
        """Remove the state of a demo of another date, whose nights differ from those of today.

        A demo without a note of its date counts as one of another date.
        """
        note = self._services.home / "last-date"
        before = note.read_text(encoding="utf-8") if note.is_file() else "an unknown date"
        if note.parent.exists() and before != last.isoformat():
            self._say(f"removing the demo of {before}")
            self._services.stop()
            shutil.rmtree(note.parent)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(last.isoformat(), encoding="utf-8")

    def _say(self, what: str) -> None:
        self._console.print(f"demo: {what}", highlight=False, markup=False, soft_wrap=True)

    def _last_tick(self) -> datetime:
        """The last time at which the schedule fired; its run is about the day before."""
        schedule = load(find(PIPELINE)).schedule
        if schedule is None:
            raise Unavailable(f"{PIPELINE} has no schedule", remedy="add one to its pipeline.yaml")
        tick: datetime = croniter(schedule.cron, datetime.now(UTC)).get_prev(datetime)
        return tick

    def _start(self, api: AirflowApi, tick: datetime) -> list[tuple[date, str]]:
        """Start all nights; (data date, run id) of each, in order.

        In a new Airflow the schedule creates the last night when the DAG is switched on. The others are triggered and
        dated before that, so that they run first. In an Airflow that has runs all nights are triggered.
        """
        first = not api.runs(PIPELINE)
        runs: list[tuple[date, str]] = []
        for back in days.BACK[:-1] if first else days.BACK:
            day = tick.date() - timedelta(days=back + 1)
            runs.append((day, self._trigger(api, day, tick - timedelta(hours=back) if first else None)))
        api.call("PATCH", f"/dags/{PIPELINE}", {"is_paused": False})
        if first:
            last = tick.date() - timedelta(days=1)
            runs.append((last, self._scheduled_run(api, last)))
        return runs

    def _trigger(self, api: AirflowApi, day: date, due: datetime | None) -> str:
        """Trigger a run for a date as the form does, and return its id. due: the time from which it may run."""
        run_id = f"demo-{day}-{datetime.now(UTC):%H%M%S}"
        after = due.isoformat() if due else None
        api.trigger(PIPELINE, run_id, run_after=after, conf={"date": day.isoformat()})
        return run_id

    def _scheduled_run(self, api: AirflowApi, day: date) -> str:
        """Wait for the run that the schedule creates for a day."""
        until = time.monotonic() + 180  # on a busy machine the scheduler takes its time
        while time.monotonic() < until:
            for run in api.runs(PIPELINE):
                if run["run_type"] == "scheduled" and run.get("partition_key") == day.isoformat():
                    return str(run["dag_run_id"])
            time.sleep(0.5)
        raise Unavailable(f"the scheduler created no run for {day}", remedy=f"read {self._services.home}/scheduler.log")

    def _watch(self, api: AirflowApi, day: date, run_id: str) -> str:
        """Show a run's tasks until it ends, and return its verdict, `refused`, or `failed`."""
        until = time.monotonic() + _RUN_S
        state = "queued"
        with Live(console=self._console, refresh_per_second=4, transient=not self._console.is_terminal) as live:
            while state in {"queued", "running"}:
                if time.monotonic() > until:
                    raise Unavailable(f"{run_id} did not end within {_RUN_S} s", remedy="look at it in Airflow's UI")
                time.sleep(0.5)
                state = api.run(PIPELINE, run_id)["state"]
                live.update(_table(f"night of {day}: {state}", api.tasks(PIPELINE, run_id)))
        if not self._console.is_terminal:
            self._console.print(_table(f"night of {day}: {state}", api.tasks(PIPELINE, run_id)))
        return self._report(self._stored(run_id))

    def _stored(self, run_id: str) -> str:
        """A run's id in the store."""
        return store_run_id(run_id, self._services.installation)

    def _report(self, run_id: str) -> str:
        """Print the results of a run and its page, and return its verdict, `refused`, or `failed`."""
        store = open_store(self._services.store)
        ended = outcomes(store, PIPELINE, run_id)
        evaluate, register = ended.get("evaluate"), ended.get("register")
        word = "failed"
        validate = ended.get("validate")
        if validate and validate.state == "failed":
            word = "refused"
            cause, _, checks = validate.because.partition("\n")
            self._say(f"refused: {cause}")
            for line in checks.splitlines():
                self._say(f"  {line}")
            self._say(f"checks page {address(store, paths.kept(PIPELINE, run_id, 'validate', 'validation.html'))}")
        if evaluate and evaluate.result:
            judged = summaries.judgement(evaluate.result)
            word = judged.verdict
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
        return word


def summarise(store: Store, run_ids: Sequence[str], *, refused: bool) -> Iterator[str]:
    """Say what the nights have shown. refused: whether the last one was refused, as it should be."""
    live = champion(store, PIPELINE)
    if refused and live is not None:
        yield (
            "the refused night is the point of the demo: Ratchet trained nothing on the poisoned day, "
            f"and production stays at version {live.version}"
        )
    done = [end for run_id in run_ids for end in outcomes(store, PIPELINE, run_id).values() if end.state == "done"]
    reused = sum(end.cached for end in done)
    if reused:
        yield f"{reused} of {len(done)} results were reused from earlier runs: the same work is never done twice"


def _table(title: str, tasks: dict[str, dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("task", "state", "try", "seconds"):
        table.add_column(heading, justify="right" if heading in {"try", "seconds"} else "left")
    for name in ("plan", *REGULAR):
        task = tasks.get(name, {})
        state = task.get("state") or ""
        seconds = f"{task['duration']:.1f}" if task.get("duration") else ""
        table.add_row(name, Text(state, style=_COLOURS.get(state, "")), str(task.get("try_number") or ""), seconds)
    return table
