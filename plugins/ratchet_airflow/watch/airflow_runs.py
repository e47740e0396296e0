"""What Airflow says of Ratchet's pipelines: their DAGs, runs, tasks and backfills."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import quote

from ratchet_airflow.public_links import airflow_url
from ratchet_airflow.task_of import OVER

TAG = "ratchet"
"""Every pipeline's DAG has this tag."""
ENDED = frozenset({"success", "failed"})
APPROVAL = "approve"
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
        return self.state in OVER

    @property
    def waits_for_person(self) -> bool:
        """Whether it waits for a person's answer."""
        return self.state == "awaiting_input" or (self.state == "deferred" and self.task_id == APPROVAL)

    @property
    def is_answered_question(self) -> bool:
        """Whether it is an approval that a person has answered."""
        return self.task_id == APPROVAL and self.state == "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run. file: its DAG's. partition: the data date; empty if Airflow does not know it.

    tasks: of a run that was read among others, only those that wait for a person.
    """

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
        asks = any(task.task_id == APPROVAL and task.waits_for_person for task in self.tasks)
        return f"{self.link}/tasks/{APPROVAL}/required_actions" if asks else ""

    def page(self, path: str) -> str:
        """The address of another page of Airflow's server."""
        return f"{airflow_url()}{path}"

    def task_link(self, task: Task) -> str:
        """A task's log, at its last try."""
        return f"{self.link}/tasks/{task.task_id}?try_number={task.try_number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A backfill. runs: in order of their dates. first, last: of its dates. left_out: dates that it made no run for."""

    number: int
    dag_id: str
    runs: tuple[Run, ...]
    first: datetime | None = None
    last: datetime | None = None
    left_out: int = 0

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
    """What Airflow says of a pipeline's DAG. started: data dates that were asked for, with a run that is not queued.

    paused_at, paused_by: of the last change, if Airflow's audit log has it.
    """

    dag_id: str
    paused: bool = False
    stale: bool = False
    import_errors: bool = False
    paused_at: datetime | None = None
    paused_by: str = ""
    started: frozenset[str] = frozenset()
