"""The tasks that share the days of a stage with it, where `resources.<stage>.tasks` asks for some.

They begin with the stage, on whatever workers, and make parts of days that no other task is at. No run depends on one:
a task that cannot help is skipped.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from secrets import token_hex
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowSkipException

from ratchet.contracts.errors import RatchetError, Unavailable
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import RunPlan
from ratchet.contracts.stages import Stage
from ratchet_airflow.plans import find_plan
from ratchet_airflow.pools import share as pool_share
from ratchet_airflow.progress import fields_of, level_of, line_of
from ratchet_airflow.retries import LOST_DELAY

if TYPE_CHECKING:
    from ratchet.runs.attempt import Attempt
    from ratchet.runs.events import Event as StageEvent

_LOOK_S = 5.0
"""Seconds between two looks at whether the stage has ended."""
_NAME = "_share"


class ShareOperator(BaseOperator):
    """Makes parts of days for a stage until no day is left that another task is not at. Its value is empty.

    It ends when the stage does, also when the stage has failed.
    """

    ui_color = "#e0f2f1"

    def __init__(self, *, pipeline: str, stage: Stage, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.stage = stage
        self.number = number
        self._attempt: Attempt | None = None

    def execute(self, context: Mapping[str, Any]) -> str:
        """Help the stage. Raises AirflowSkipException where there is nothing to do, or it cannot; once Unavailable."""
        task = context["ti"]
        try:
            self._help(find_plan(self.pipeline, context["run_id"], context), f"{str(task.id)[-12:]}-{token_hex(2)}")
        except RatchetError as error:
            if isinstance(error, Unavailable) and task.try_number <= task.max_tries:
                raise
            raise AirflowSkipException(f"{self.stage} goes on without this share: {error}") from error
        return ""

    def _help(self, plan: RunPlan, attempt: str) -> None:
        from ratchet.runners.choice import planned_runner
        from ratchet.runs.attempt import Attempt
        from ratchet.runs.shares import forget, how_it_ended, share
        from ratchet.store.opening import open_store

        runner, how = planned_runner(plan.pins.image)
        self.log.info("share %d of %s of %s for %s; %s", self.number, self.stage, self.pipeline, plan.data_date, how)
        store, over = open_store(plan.store), Event()
        before = how_it_ended(store, plan, self.stage)  # in a run that was cleared it has ended once
        work = share(store, plan, self.stage, self.number, f"share{self.number}-{attempt}")
        if work is None:
            raise AirflowSkipException(f"{self.stage} has its result, or makes every day again")
        self._attempt = Attempt(work, runner, on_event=self._log_event, fresh=True)

        def follow_the_stage() -> None:
            while not over.wait(_LOOK_S):
                with suppress(RatchetError):
                    if how_it_ended(store, plan, self.stage) != before:
                        self.on_kill()
                        return

        watch = Thread(target=follow_the_stage, name="stage", daemon=True)
        watch.start()
        try:
            self._attempt.compute()
        finally:
            over.set()
            watch.join()
            forget(work)

    def on_kill(self) -> None:
        """Send the container a notice to stop."""
        if self._attempt is not None:
            self._attempt.interrupt()

    def _log_event(self, event: "StageEvent") -> None:
        self.log.log(level_of(event), line_of(event), **fields_of(event))


def is_share(task_id: str) -> bool:
    """Whether a task only helps another one. How it ends says nothing about its run."""
    return task_id.endswith(_NAME)


def share_tasks(spec: PipelineSpec, stage: Stage, limit: timedelta) -> MappedOperator | None:
    """The tasks beside that of a stage, as one mapped task; None where its one task is enough. limit: of each."""
    resources = spec.resources_of(stage)
    if resources.tasks == 1:
        return None
    made: MappedOperator = ShareOperator.partial(
        task_id=f"{stage}{_NAME}",
        owner=spec.owner,
        pipeline=spec.name,
        stage=stage,
        retries=1,
        retry_delay=LOST_DELAY,
        execution_timeout=limit,
        **pool_share(resources),
    ).expand(number=list(range(1, resources.tasks)))
    # The state of a run does not depend on a teardown.
    made.as_teardown(on_failure_fail_dagrun=False)
    return made
