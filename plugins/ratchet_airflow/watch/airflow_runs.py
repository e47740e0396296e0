"""Runs of Ratchet's pipelines, read from Airflow's database. Only for processes that may open it, as the scheduler."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

from ratchet_airflow.public_links import airflow_url

TAG = "ratchet"
"""Every pipeline's DAG has this tag."""
ENDED = frozenset({"success", "failed"})
_DONE = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
_APPROVAL = "approve"
_RECENT = timedelta(days=40)
"""Of runs that may be those of the newest due night: a schedule may be monthly."""
_PAUSES = ("patch_dag", "patch_dags", "cli_dag_pause", "cli_pause")
"""How the audit log calls a change of a pause."""
State = Literal["queued", "running", "success", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a run. changed: when it was last queued, started or ended."""

    task_id: str
    state: str | None
    try_number: int
    max_tries: int
    changed: datetime | None

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.state in _DONE

    @property
    def waits_for_person(self) -> bool:
        """Whether it waits for a person's answer."""
        return self.state == "awaiting_input" or (self.state == "deferred" and self.task_id == _APPROVAL)

    @property
    def is_answered_question(self) -> bool:
        """Whether it is an approval that a person has answered."""
        return self.task_id == _APPROVAL and self.state == "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run. file: its DAG's. partition: the data date; empty if Airflow does not know it."""

    dag_id: str
    file: str
    run_id: str
    state: str
    partition: str
    queued: datetime
    started: datetime | None
    ended: datetime | None
    backfill: int | None
    tasks: tuple[Task, ...]

    @property
    def link(self) -> str:
        """Its page."""
        return f"{airflow_url()}/dags/{self.dag_id}/runs/{quote(self.run_id)}"

    @property
    def question(self) -> str:
        """The page on which a person answers whether its candidate goes into production; empty if it does not ask."""
        asks = any(task.task_id == _APPROVAL and task.waits_for_person for task in self.tasks)
        return f"{self.link}/tasks/{_APPROVAL}/required_actions" if asks else ""

    def page(self, path: str) -> str:
        """The address of another page of Airflow's server."""
        return f"{airflow_url()}{path}"

    def task_link(self, task: Task) -> str:
        """A task's log, at its last try."""
        return f"{self.link}/tasks/{task.task_id}?try_number={task.try_number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A backfill. runs: in order of their dates. left_out: dates for which it made no run."""

    number: int
    dag_id: str
    runs: tuple[Run, ...]
    left_out: int

    @property
    def ended(self) -> bool:
        """Whether each run has ended."""
        return all(run.state in ENDED for run in self.runs)

    @property
    def link(self) -> str:
        """The page of the pipeline's backfills."""
        return f"{airflow_url()}/dags/{self.dag_id}/backfills"


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowDag:
    """What Airflow says of a pipeline's DAG. started: the newest data dates that have a run which is no longer queued.

    paused_at, paused_by: of the last change, if Airflow's audit log has it.
    """

    dag_id: str
    paused: bool = False
    stale: bool = False
    import_errors: bool = False
    paused_at: datetime | None = None
    paused_by: str = ""
    started: frozenset[str] = frozenset()


def read_dags() -> dict[str, AirflowDag]:
    """Every pipeline's DAG, also one that Airflow can no longer load."""
    from airflow.models import DagModel, DagRun, DagTag
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        ours = select(DagTag.dag_id).where(DagTag.name == TAG)
        rows = list(session.scalars(select(DagModel).where(DagModel.dag_id.in_(ours))))
        since = datetime.now(UTC) - _RECENT
        runs = select(DagRun.dag_id, DagRun.partition_key).where(
            DagRun.dag_id.in_(ours), DagRun.state != "queued", DagRun.run_after > since
        )
        started: dict[str, set[str]] = {}
        for dag_id, partition in session.execute(runs):
            started.setdefault(dag_id, set()).add(str(partition))
        return {
            row.dag_id: AirflowDag(
                dag_id=row.dag_id,
                paused=bool(row.is_paused),
                stale=bool(row.is_stale),
                import_errors=bool(row.has_import_errors),
                **(_pause(session, row.dag_id) if row.is_paused else {}),
                started=frozenset(started.get(row.dag_id, ())),
            )
            for row in rows
        }


def _pause(session: Any, dag_id: str) -> dict[str, Any]:
    """When and by whom a DAG was paused, by Airflow's audit log; nothing if that does not say."""
    from airflow.models import Log
    from sqlalchemy import select

    said = select(Log).where(Log.dag_id == dag_id, Log.event.in_(_PAUSES)).order_by(Log.dttm.desc()).limit(1)
    row = session.scalar(said)
    return {} if row is None else {"paused_at": row.dttm, "paused_by": row.owner_display_name or row.owner or ""}


def scheduler_is_alive() -> bool:
    """Whether a scheduler has sent a heartbeat in time, so that runs are made."""
    from airflow.jobs.job import most_recent_job

    newest = most_recent_job("SchedulerJob")
    return newest is not None and newest.is_alive()


def read_runs(*, ended_within: timedelta) -> tuple[list[Run], list[Backfill]]:
    """Every run that is active or ended within this time, and the backfills of these runs."""
    from airflow.models import DagModel, DagRun, DagTag
    from airflow.utils.session import create_session
    from sqlalchemy import or_, select

    since = datetime.now(UTC) - ended_within
    with create_session() as session:
        ours = select(DagTag.dag_id).where(DagTag.name == TAG)
        files = dict(session.execute(select(DagModel.dag_id, DagModel.fileloc).where(DagModel.dag_id.in_(ours))).all())
        wanted = select(DagRun).where(
            DagRun.dag_id.in_(ours), or_(DagRun.state.in_(["queued", "running"]), DagRun.end_date > since)
        )
        runs = [_run(row, files.get(row.dag_id)) for row in session.scalars(wanted)]
        numbers = sorted({run.backfill for run in runs if run.backfill is not None})
        return runs, [_backfill(session, number, files) for number in numbers]


def _backfill(session: Any, number: int, files: dict[str, str | None]) -> Backfill:
    from airflow.models import DagRun
    from airflow.models.backfill import BackfillDagRun
    from sqlalchemy import func, select

    rows = session.scalars(select(DagRun).where(DagRun.backfill_id == number))
    runs = sorted((_run(row, files.get(row.dag_id)) for row in rows), key=lambda run: (run.partition, run.run_id))
    without = select(func.count()).where(BackfillDagRun.backfill_id == number, BackfillDagRun.dag_run_id.is_(None))
    return Backfill(number=number, dag_id=runs[0].dag_id, runs=tuple(runs), left_out=session.scalar(without) or 0)


def _run(row: Any, file: str | None) -> Run:
    return Run(
        dag_id=row.dag_id,
        file=file or "",
        run_id=row.run_id,
        state=str(getattr(row.state, "value", row.state)),
        partition=row.partition_key or "",
        queued=row.queued_at or row.start_date or row.run_after,
        started=row.start_date,
        ended=row.end_date,
        backfill=row.backfill_id,
        tasks=tuple(_task(task) for task in row.task_instances),
    )


def _task(row: Any) -> Task:
    return Task(
        task_id=row.task_id,
        state=str(getattr(row.state, "value", row.state)) if row.state else None,
        try_number=row.try_number,
        max_tries=row.max_tries,
        changed=_latest((row.queued_dttm, row.start_date, row.end_date)),
    )


def _latest(moments: Iterable[datetime | None]) -> datetime | None:
    return max((moment for moment in moments if moment), default=None)
