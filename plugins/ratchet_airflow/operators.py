"""The tasks of a pipeline's stages. They connect ratchet/runs with Airflow."""

from collections.abc import Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.resumablejobmixin import ResumableJobMixin
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSkipException, TaskDeferred

from ratchet.contracts.environment import environment
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage, StageSettings
from ratchet_airflow.deferring import LeavesContainer, left_before
from ratchet_airflow.leaving import take_back_left
from ratchet_airflow.links import links_of
from ratchet_airflow.outages import USUAL, OnOutage, goes_on, waits_for_outages
from ratchet_airflow.plans import find_plan
from ratchet_airflow.waits import RUN, SOURCE, Waits

if TYPE_CHECKING:
    from ratchet.runners.runner import Runner
    from ratchet.runs.work import Work
    from ratchet.store.base import Store


class StageOperator(ResumableJobMixin, LeavesContainer):
    """One stage: found in the cache, or run by the runner. Its value is the manifest's address.

    Where the verdict leaves nothing to do, which is no failure, register is skipped, and a refit succeeds at once: were
    it skipped, Airflow would skip register without a record and an alert. Durable: Airflow's task state store keeps the
    attempt's name before its container starts. A try whose worker died leaves both behind, and the next try follows the
    same container. After a clear the name is dropped, and the container of an earlier try is ended first.

    With RATCHET_DEFER_SECONDS the task leaves a container that runs longer to the triggerer, or to the follower of its
    host. It is deferred then, and the same try goes on with `go_on`.
    """

    ui_color = "#e0f2f1"
    external_id_key = "ratchet_attempt"
    _tries_key = "ratchet_max_tries"
    _cleared_key = "ratchet_cleared"
    _outcome: Outcome
    """Set by `poll_until_complete`, which the mixin calls in any case."""

    def __init__(
        self,
        *,
        pipeline: str,
        stage: Stage,
        handling: StageSettings = USUAL,
        on_outage: OnOutage | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(task_id=stage, **kwargs)
        self.handling, self.on_outage, self.has_waited = handling, on_outage, False
        self.pipeline = pipeline
        self.stage = stage
        self.operator_extra_links = links_of(stage)
        self.result: StageResult | None = None
        """The stage's result. Set by execute; the links and the callbacks after it read it."""
        self.why_skipped: str | None = None
        self.may_promote = False
        """Whether the run may move production; set by execute, for the callbacks after it."""
        self._goes_on = False

    @waits_for_outages
    def execute(self, context: Mapping[str, Any]) -> str:
        """Bring the stage to its end. Raises the RatchetError that says why it failed, or TaskDeferred."""
        return self._bring_to_end(context, None)

    @waits_for_outages
    def go_on(self, context: Mapping[str, Any], event: Mapping[str, Any] | None = None, **left: Any) -> str:
        """Go on where `execute` left the container: as it does. Airflow calls this when the trigger has fired.

        If something does not answer now, Airflow calls `execute` later, which finds the container by its kept name.
        """
        begun = left_before(event, left)
        self.log.info("going on after the triggerer: %s", begun["why"])
        return self._bring_to_end(context, begun)

    def _bring_to_end(self, context: Mapping[str, Any], begun: Mapping[str, Any] | None) -> str:
        from ratchet.runners.choice import planned_runner
        from ratchet.runs.attempt import Attempt
        from ratchet.runs.left_job import left_work
        from ratchet.runs.leftovers import read_leftovers
        from ratchet.runs.stage_record import StageRecord
        from ratchet.runs.upgrading import settle_here
        from ratchet.runs.work import Work
        from ratchet.store.opening import open_store
        from ratchet_airflow.hosts import larger_hosts_wanted

        cleared = self._note_clear(context)
        plan = find_plan(self.pipeline, context["run_id"], context)
        self.may_promote = plan.promotion.mode != "never"
        runner, how = planned_runner(plan.pins.image)
        self.log.info("%s of %s for %s; %s", self.stage, self.pipeline, plan.data_date, how)
        store = open_store(plan.store)
        with StageRecord(
            store, plan, self.stage,
            no_end=(AirflowRescheduleException, TaskDeferred), try_number=context["ti"].try_number,
            again=lambda error: goes_on(self, context, error),
        ) as record, larger_hosts_wanted(store, runner):  # fmt: skip
            states = context.get("task_state_store")
            take_back_left(store, plan.installation, runner, states, self.log_event, ends=cleared)
            name, late = _attempt_name(context), Waits(context, SOURCE)
            settled: Outcome | Work | None = None
            if begun is not None:
                settled = left_work(store, plan, begun["request"], begun["because"], runner)
            self._goes_on = settled is not None
            if settled is None:
                settled = settle_here(
                    store, plan, self.stage, name, runner,
                    on_event=self.log_event, pause=late.pause, waited=late.waited, cleared=lambda: cleared,
                )  # fmt: skip
            self._clear_is_done(context)
            if isinstance(settled, Work):
                fresh = self._kept_name(context) is None and not self._goes_on
                leave = self.when_to_leave(runner, again=begun is None or begun["again"])
                record.attempt = self._attempt = Attempt(
                    settled, runner, on_event=self.log_event, fresh=fresh, keep=True, leave=leave,
                    **({name: begun[name] for name in ("preemptions", "log")} if begun is not None else {}),
                )  # fmt: skip
                if self.killed:
                    self._attempt.interrupt()
                self._compute(settled, runner, context, fresh=fresh)
                settled = self._outcome
            left = read_leftovers(store, plan, settled, runner, name=name, on_event=self.log_event)
            record.last_lines, record.log = left
            outcome = record.end(settled)
        return self._value(store, plan, outcome)

    def _value(self, store: "Store", plan: RunPlan, outcome: Outcome) -> str:
        """What Airflow keeps of an outcome. Raises AirflowSkipException where nothing was to do."""
        if outcome.state == "skipped" and self.stage == "refit":
            self.log.info("nothing to do: %s", outcome.because)
            return ""
        if outcome.state == "skipped":
            self.why_skipped = outcome.because
            raise AirflowSkipException(outcome.because)
        self.log.info("%s: %s", "found in the cache" if outcome.cached else "built", outcome.because)
        self.result = outcome.result
        if self.stage == "report":
            self._follow_ledger(store, plan)
        return f"{plan.store}/{outcome.manifest}"

    def _compute(self, work: "Work", runner: "Runner", context: Mapping[str, Any], *, fresh: bool) -> None:
        """Compute, or follow, by way of the mixin. Raises TaskDeferred where the container is left.

        Another run that computes the same for long is waited for without a worker, within the time of the stage.
        """
        from ratchet.contracts.outages import LONGEST_S
        from ratchet.runners.following import LeftRunning
        from ratchet.runs.taking import Elsewhere, OtherRun, waited_enough

        try:
            if self._goes_on:
                self.poll_until_complete(work.attempt, context)
            else:
                self.execute_resumable(context)  # type: ignore[arg-type] # Airflow's Context is a mapping
        except LeftRunning:
            self.leave_container(work, runner, context.get("task_state_store"))
        except (Elsewhere, OtherRun) as error:
            states = context.get("task_state_store")
            if fresh and states is not None:  # the next look is as fresh: it ends the container, and does not follow it
                states.delete(self.external_id_key)
            if isinstance(error, OtherRun) and states is not None:
                waits = Waits(context, RUN)
                waited_enough(work, waits.waited())
                self.log.info("%s: its worker is given back, and the same try looks again", error)
                waits.pause(min(max(waits.waited(), environment().defer_seconds), LONGEST_S))
            raise

    def _follow_ledger(self, store: "Store", plan: RunPlan) -> None:
        """Let the registry follow the ledger at the end of each run, whatever was found in the cache."""
        from ratchet.production.reconcile import reconcile, sentences

        found = reconcile(store, plan.tracking_uri, plan.spec.model_name)
        for line in sentences(plan.spec.model_name, found):
            self.log.warning("production: %s", line)

    def submit_job(self, context: Mapping[str, Any]) -> str:
        """The attempt's name, which the mixin keeps before it calls `poll_until_complete`, where the container starts.

        So a worker that dies in between loses a name, never a container.
        """
        _ = context
        return self._attempt.work.attempt

    def get_job_status(self, external_id: Any, context: Mapping[str, Any]) -> str:
        """Whether the container of an attempt exists, running or ended."""
        _ = context
        return "there" if self._attempt.exists(str(external_id)) else "gone"

    def is_job_active(self, status: str) -> bool:
        """Also one that has ended is followed: for the rest of its log, and for why it ended."""
        return status == "there"

    def is_job_succeeded(self, status: str) -> bool:
        """False: a status does not say it. What succeeded is published, and found in the cache."""
        _ = status
        return False

    def poll_until_complete(self, external_id: Any, context: Mapping[str, Any]) -> None:
        """Compute, or follow the container of an earlier try."""
        _ = context
        own = external_id == self._attempt.work.attempt and not self._goes_on
        self._outcome = self._attempt.compute(earlier=None if own else str(external_id))

    def get_job_result(self, external_id: Any, context: Mapping[str, Any]) -> None:
        """Nothing: `poll_until_complete` keeps the outcome."""

    def _note_clear(self, context: Mapping[str, Any]) -> bool:
        """Whether a person has cleared the task, and no try has acted on it. Noted before anything that can fail.

        Airflow keeps a task's state over a clear. It raises max_tries then, and only then; the first is `retries`.
        After a clear the name of the attempt that an earlier try has kept is dropped.
        """
        states, tries = context.get("task_state_store"), context["ti"].max_tries
        if states is None:
            return False
        before = states.get(self._tries_key)
        if (self.retries if before is None else before) != tries:
            states.set(self._cleared_key, tries)
        if states.get(self._cleared_key) == tries != before:
            states.delete(self.external_id_key)
        if before != tries:
            states.set(self._tries_key, tries)  # the last: a try that is killed before does all of it again
        return states.get(self._cleared_key) is not None

    def _clear_is_done(self, context: Mapping[str, Any]) -> None:
        """What a clear asks for is done: the run is planned with what is installed now, where that was due."""
        states = context.get("task_state_store")
        if states is not None and states.get(self._cleared_key) is not None:
            states.delete(self._cleared_key)

    def _kept_name(self, context: Mapping[str, Any]) -> Any:
        """The name of the attempt that an earlier try has kept; none after a clear."""
        states = context.get("task_state_store")
        return states.get(self.external_id_key) if states is not None else None


def _attempt_name(context: Mapping[str, Any]) -> str:
    task = context["ti"]
    return f"try{task.try_number}-{str(task.id)[-12:]}-{token_hex(2)}"
