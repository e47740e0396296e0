"""The tasks of a pipeline: the plan, and its stages. They connect ratchet/runs with Airflow."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.bases.resumablejobmixin import ResumableJobMixin
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSkipException

from ratchet.contracts.environment import environment
from ratchet.contracts.request import AsOf, Outcome, RunPlan
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet_airflow import form, settings
from ratchet_airflow.data_date import data_date, run_kind
from ratchet_airflow.links import links_of
from ratchet_airflow.plans import find_plan
from ratchet_airflow.progress import fields_of, level_of, line_of
from ratchet_airflow.run_id import store_run_id

if TYPE_CHECKING:
    from ratchet.runs.attempt import Attempt
    from ratchet.runs.events import Event
    from ratchet.store.base import Store

_LOOK_S = 20.0
"""Seconds between two looks at a source that is late. Each look is a process of a worker."""


class PlanOperator(BaseOperator):
    """Plans the run, and writes the plan into the store. Its value is the plan's address."""

    ui_color = "#e8eaf6"

    def __init__(self, *, folder: Path, timezone: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = folder
        self.timezone = timezone

    def execute(self, context: Mapping[str, Any]) -> str:
        """Plan the run. Raises ConfigurationError where the form or the file is wrong."""
        from ratchet.contracts import paths
        from ratchet.contracts.loading import load
        from ratchet.production.baseline import baseline
        from ratchet.production.findings import unreadable
        from ratchet.runners.choice import choose_image, choose_runner
        from ratchet.runs.history import first_judged
        from ratchet.runs.planning import make_plan
        from ratchet.store.opening import open_store

        here = settings.read()
        asked = context["params"]
        changed = form.overrides(asked)
        spec = load(self.folder, changed)
        day = data_date(context, self.timezone)
        kind = run_kind(context)
        promotion = form.promotion(asked, kind, day, spec.register_.promote)
        as_of: AsOf = asked.get("as_of") or ("then" if kind == "backfill" else "now")
        runner, how = choose_runner(environment().runner)
        image, named = choose_image(runner, gpu=spec.resources["train"].gpus > 0)
        plan = make_plan(
            folder=self.folder,
            spec=spec,
            data_date=day,
            run_id=store_run_id(context["run_id"]),
            kind=kind,
            store_uri=here.store,
            tracking_uri=here.tracking,
            overrides={key: str(value) for key, value in changed.items()},
            started_by=getattr(context["dag_run"], "triggering_user_name", None) or "",
            rebuild=bool(asked.get("rebuild")),
            promote=promotion.mode,
            latest=promotion.latest,
            image=image,
            as_of=as_of,
            origin=context["run_id"],
        )
        store = open_store(plan.store)
        may_promote = plan.promotion.mode != "never"
        measured = None
        if not unreadable(plan.authority):
            measured = baseline(store, spec.model_name, data_date=day, candidate="", may_promote=may_promote)
        for line in plan.production:
            self.log.warning("production: %s", line)
        champion = f"version {measured.version}" if measured else "none yet"
        self.log.info("%s: data of %s and the %d days before it", spec.name, plan.data_date, len(plan.source) - 1)
        for key, value in sorted(plan.overrides.items()):
            self.log.info("%s = %s, as the form says", key, value)
        if as_of == "then" and (first := first_judged(store, spec.name, day)) is not None:
            said = "as_of is then: the source is that of run %s, without later changes; as_of: now takes it as it is"
            self.log.info(said, first.origin or first.run_id)
        self.log.info("champion: %s; promotion: %s %s", champion, plan.promotion.mode, plan.promotion.reason)
        self.log.info("%s%s", how, named)
        return f"{plan.store}/{paths.plan(spec.name, plan.run_id)}"


class StageOperator(ResumableJobMixin, BaseOperator):
    """One stage: found in the cache, or run by the runner. Its value is the manifest's address.

    Where the verdict leaves nothing to do, which is no failure, register is skipped, and a refit succeeds at once: were
    it skipped, Airflow would skip register without a record and an alert. Durable: Airflow's task state store keeps the
    attempt's name before its container starts. A try whose worker died leaves both behind, and the next try follows the
    same container. After a clear the name is dropped, and the container of an earlier try is ended first.
    """

    ui_color = "#e0f2f1"
    external_id_key = "ratchet_attempt"
    _tries_key = "ratchet_max_tries"
    _attempt: "Attempt"
    """Set by `execute` before it calls the mixin, which calls the methods below."""
    _outcome: Outcome
    """Set by `poll_until_complete`, which the mixin calls in any case."""

    def __init__(self, *, pipeline: str, stage: Stage, **kwargs: Any) -> None:
        super().__init__(task_id=stage, **kwargs)
        self.pipeline = pipeline
        self.stage = stage
        self.operator_extra_links = links_of(stage)
        self.result: StageResult | None = None
        """The stage's result. Set by execute; the links and the callbacks after it read it."""
        self.why_skipped: str | None = None
        self.may_promote = False
        """Whether the run may move production; set by execute, for the callbacks after it."""
        self._killed = False

    def execute(self, context: Mapping[str, Any]) -> str:
        """Bring the stage to its end. Raises the RatchetError that says why it failed."""
        from ratchet.runners.choice import choose_runner
        from ratchet.runs.attempt import Attempt
        from ratchet.runs.leftovers import read_leftovers
        from ratchet.runs.stage_record import StageRecord
        from ratchet.runs.work import Work, settle
        from ratchet.store.opening import open_store

        plan = find_plan(self.pipeline, context["run_id"], context)
        self.may_promote = plan.promotion.mode != "never"
        runner, how = choose_runner(environment().runner)
        self.log.info("%s of %s for %s; %s", self.stage, self.pipeline, plan.data_date, how)
        store = open_store(plan.store)
        with StageRecord(store, plan, self.stage) as record:
            name = _attempt_name(context)
            settled = settle(store, plan, self.stage, name, on_event=self._log_event, pause=_reschedule)
            if isinstance(settled, Work):
                fresh = self._kept_name(context) is None
                record.attempt = self._attempt = Attempt(settled, runner, on_event=self._log_event, fresh=fresh)
                if self._killed:
                    self._attempt.interrupt()
                self.execute_resumable(context)  # type: ignore[arg-type] # Airflow's Context is a mapping
                settled = self._outcome
            left = read_leftovers(store, plan, settled, runner, name=name, on_event=self._log_event)
            record.last_lines, record.log = left
            outcome = record.end(settled)
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
        own = external_id == self._attempt.work.attempt
        self._outcome = self._attempt.compute(earlier=None if own else str(external_id))

    def get_job_result(self, external_id: Any, context: Mapping[str, Any]) -> None:
        """Nothing: `poll_until_complete` keeps the outcome."""

    def on_kill(self) -> None:
        """Airflow gives a task five seconds to stop. Another process gives the stage its whole grace."""
        self._killed = True
        attempt = getattr(self, "_attempt", None)
        if attempt is not None:
            attempt.interrupt()

    def _kept_name(self, context: Mapping[str, Any]) -> Any:
        """The name of the attempt that an earlier try has kept; dropped after a clear.

        Airflow keeps a task's state over a clear. It raises max_tries then, and only then.
        """
        states, tries = context.get("task_state_store"), context["ti"].max_tries
        if states is None:
            return None
        if states.get(self._tries_key) != tries:
            states.delete(self.external_id_key)
            states.set(self._tries_key, tries)
        return states.get(self.external_id_key)

    def _log_event(self, event: "Event") -> None:
        self.log.log(level_of(event), line_of(event), **fields_of(event))


def _reschedule(seconds: float) -> None:
    """Run the same try of this task again in some seconds, at least `_LOOK_S`. Meanwhile it occupies no worker."""
    then = datetime.now(UTC) + timedelta(seconds=max(seconds, _LOOK_S))
    raise AirflowRescheduleException(then)  # type: ignore[no-untyped-call] # Airflow's own has no types


def _attempt_name(context: Mapping[str, Any]) -> str:
    task = context["ti"]
    return f"try{task.try_number}-{str(task.id)[-12:]}-{token_hex(2)}"
