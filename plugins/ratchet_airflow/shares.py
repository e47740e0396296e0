"""The tasks that share the days of a stage with it, where `resources.<stage>.tasks` asks for some.

They begin with the stage, on whatever workers, and make parts of days that no other task is at. No run depends on one:
a task that cannot help is skipped.
"""

from collections.abc import Mapping
from datetime import timedelta
from secrets import token_hex
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowSkipException

from ratchet.contracts.errors import RatchetError, Unavailable
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import RunPlan
from ratchet.contracts.stages import Stage
from ratchet_airflow.deferring import LeavesContainer, left_before
from ratchet_airflow.leaving import take_back_left
from ratchet_airflow.plans import find_plan
from ratchet_airflow.pools import share as pool_share
from ratchet_airflow.retries import LOST_DELAY
from ratchet_airflow.task_states import is_over

if TYPE_CHECKING:
    from ratchet.runners.runner import Runner
    from ratchet.runs.work import Work
    from ratchet.store.base import Store
    from ratchet_airflow.container_trigger import ContainerTrigger

_LOOK_S = 10.0
"""Seconds between two looks at whether the stage has ended."""
_NAME = "_share"
_KEPT = "ratchet_share"
"""The key of the request that a share has begun with, in Airflow's state of its task."""


class ShareOperator(LeavesContainer):
    """Makes parts of days for a stage until no day is left that another task is not at. Its value is empty.

    It ends when the stage does, also when the stage has failed. A container that runs for long is left as a stage's;
    a try whose worker died leaves it behind, and the next try follows the same container.
    """

    ui_color = "#e0f2f1"

    def __init__(self, *, pipeline: str, stage: Stage, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.stage = stage
        self.number = number

    def execute(self, context: Mapping[str, Any]) -> str:
        """Help the stage. Raises AirflowSkipException where there is nothing to do, or it cannot; once Unavailable."""
        return self._bring_to_end(context, {})

    def go_on(self, context: Mapping[str, Any], event: Mapping[str, Any] | None = None, **left: Any) -> str:
        """Go on where the container was left. Airflow calls this when the trigger has fired."""
        begun = left_before(event, left)
        self.log.info("going on after the triggerer: %s", begun["why"])
        return self._bring_to_end(context, begun)

    def _bring_to_end(self, context: Mapping[str, Any], begun: Mapping[str, Any]) -> str:
        """begun: what the trigger says of a container that was left; empty if none was."""
        task = context["ti"]
        try:
            self._help(context, find_plan(self.pipeline, context["run_id"], context), begun)
        except (RatchetError, AirflowSkipException) as error:
            if isinstance(error, Unavailable) and task.try_number <= task.max_tries:
                raise
            context["task_state_store"].delete(_KEPT)
            if isinstance(error, AirflowSkipException):
                raise
            raise AirflowSkipException(f"{self.stage} goes on without this share: {error}") from error
        context["task_state_store"].delete(_KEPT)
        return ""

    def _help(self, context: Mapping[str, Any], plan: RunPlan, begun: Mapping[str, Any]) -> None:
        from ratchet.runners.choice import planned_runner
        from ratchet.runners.following import LeftRunning
        from ratchet.runs.attempt import Attempt
        from ratchet.runs.shares import forget
        from ratchet.store.opening import open_store

        runner, how = planned_runner(plan.pins.image)
        self.log.info("share %d of %s of %s for %s; %s", self.number, self.stage, self.pipeline, plan.data_date, how)
        store, states, over = open_store(plan.store), context["task_state_store"], Event()
        take_back_left(store, plan.installation, runner, states, self.log_event)
        work, goes_on = self._work(store, plan, runner, context)

        def follow_the_stage() -> None:
            while not over.is_set():
                if is_over(self.pipeline, context["run_id"], self.stage):
                    self.on_kill()
                    return
                over.wait(_LOOK_S)

        self._attempt = Attempt(
            work, runner, on_event=self.log_event, fresh=not goes_on,
            leave=self.when_to_leave(runner, again=begun.get("again", True)),
            preemptions=begun.get("preemptions", 0), log=begun.get("log"),
        )  # fmt: skip
        watch = Thread(target=follow_the_stage, name="stage", daemon=True)
        watch.start()
        try:
            self._attempt.compute(earlier=work.attempt if goes_on else None)
        except LeftRunning:
            over.set()
            watch.join()
            self.leave_container(work, runner, states)
        finally:
            over.set()
            watch.join()
        forget(work)

    def _work(self, store: "Store", plan: RunPlan, runner: "Runner", context: Mapping[str, Any]) -> tuple["Work", bool]:
        """What it computes, and whether an earlier process of this task has begun with that and left a container."""
        from ratchet.runs.left_job import left_work
        from ratchet.runs.shares import share

        task, states = context["ti"], context["task_state_store"]
        kept = states.get(_KEPT)
        if kept is not None and (work := left_work(store, plan, kept, "", runner)) is not None:
            return work, True
        if is_over(self.pipeline, context["run_id"], self.stage):
            raise AirflowSkipException(f"{self.stage} has ended")
        made = share(store, plan, self.stage, self.number, f"share{self.number}-{str(task.id)[-12:]}-{token_hex(2)}")
        if made is None:
            raise AirflowSkipException(f"{self.stage} has its result, or makes every day again")
        states.set(_KEPT, made.request.model_dump_json(by_alias=True))
        return made, False

    def make_trigger(self, **left: Any) -> "ContainerTrigger":
        """One that ends the container with the stage."""
        from ratchet_airflow.share_trigger import ShareTrigger

        return ShareTrigger(**left, stage=self.stage)


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
