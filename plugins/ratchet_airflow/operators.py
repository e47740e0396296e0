"""The tasks of a pipeline: the plan, and its stages. What they do is in ratchet/runs; here it meets Airflow."""

from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.bases.resumablejobmixin import ResumableJobMixin
from airflow.sdk.exceptions import AirflowSkipException

from ratchet.contracts.request import Outcome
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet_airflow import form, settings
from ratchet_airflow.data_date import data_date, run_kind
from ratchet_airflow.links import links_of
from ratchet_airflow.progress import fields_of, level_of, line_of
from ratchet_airflow.run_id import store_run_id

if TYPE_CHECKING:
    from ratchet.runs.attempt import Attempt
    from ratchet.runs.events import Event


class PlanOperator(BaseOperator):
    """Decides everything about the run, and writes it down in the store. Its value is the plan's address."""

    ui_color = "#e8eaf6"

    def __init__(self, *, folder: Path, timezone: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = folder
        self.timezone = timezone

    def execute(self, context: Mapping[str, Any]) -> str:
        """Plan the run. Raises ConfigurationError for what the form or the file says wrong."""
        from ratchet.contracts import paths
        from ratchet.contracts.loading import load
        from ratchet.runners.choice import choose_image, choose_runner
        from ratchet.runs.planning import make_plan

        here = settings.read()
        asked = context["params"]
        changed = form.overrides(asked)
        spec = load(self.folder, changed)
        day = data_date(context, self.timezone)
        kind = run_kind(context)
        runner, how = choose_runner(here.runner)
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
            rebuild=bool(asked.get("rebuild")),
            promote=asked.get("promote"),
            image=image,
            as_of=asked.get("as_of") or ("then" if kind == "backfill" else "now"),
            origin=context["run_id"],
        )
        champion = f"version {plan.champion.version}" if plan.champion else "none yet"
        self.log.info("%s: data of %s and the %d days before it", spec.name, plan.data_date, len(plan.source) - 1)
        for key, value in sorted(plan.overrides.items()):
            self.log.info("%s = %s, as the form says", key, value)
        self.log.info("champion: %s; promotion: %s %s", champion, plan.promotion.mode, plan.promotion.reason)
        self.log.info("%s%s", how, named)
        return f"{plan.store}/{paths.plan(spec.name, plan.run_id)}"


class StageOperator(ResumableJobMixin, BaseOperator):
    """One stage: found in the cache, or run by the runner. Its value is the manifest's address.

    Skipped where there is nothing to do, which is a verdict, not a failure. Durable: the name of the attempt is kept in
    Airflow's task state store before its container starts. A try whose worker died leaves both behind, and the next one
    follows the same container. After a clear the name is dropped, and what is left of an earlier try is ended first.
    """

    ui_color = "#e0f2f1"
    external_id_key = "ratchet_attempt"
    _tries_key = "ratchet_max_tries"

    def __init__(self, *, pipeline: str, stage: Stage, **kwargs: Any) -> None:
        super().__init__(task_id=stage, **kwargs)
        self.pipeline = pipeline
        self.stage = stage
        self.operator_extra_links = links_of(stage)
        self.result: StageResult | None = None
        """What came of it. Set by execute; the links and the callbacks after it read it."""
        self.why_skipped: str | None = None
        self._outcome: Outcome | None = None

    def execute(self, context: Mapping[str, Any]) -> str:
        """Bring the stage to its end. Raises the RatchetError that says why it failed."""
        from ratchet.runs.execution import recorded

        self._attempt = self._make_attempt(context)
        outcome = recorded(self._attempt, lambda: self._attempt.ready() or self._resumed(context))
        if outcome.state == "skipped":
            self.why_skipped = outcome.because
            raise AirflowSkipException(outcome.because)
        self.log.info("%s: %s", "found in the cache" if outcome.cached else "built", outcome.because)
        self.result = outcome.result
        return f"{self._attempt.plan.store}/{outcome.manifest}"

    def submit_job(self, context: Mapping[str, Any]) -> str | None:
        """Begin. The attempt's name, or None if another run came to the result meanwhile."""
        states = context.get("task_state_store")
        self._attempt.fresh = states is None or states.get(self.external_id_key) is None
        if states is not None:
            # Before the container starts: a worker that dies in between loses a name, never a container.
            states.set(self.external_id_key, self._attempt.name)
        self._outcome = self._attempt.begin()
        return None if self._outcome else self._attempt.name

    def get_job_status(self, external_id: Any, context: Mapping[str, Any]) -> str:
        """Whether the container of an attempt is there, running or ended."""
        _ = context
        return "there" if self._attempt.is_there(str(external_id)) else "gone"

    def is_job_active(self, status: str) -> bool:
        """Also one that has ended is followed: for the rest of its log, and for why it ended."""
        return status == "there"

    def is_job_succeeded(self, status: str) -> bool:
        """Never told from a status: what succeeded was published, and is found in the cache."""
        _ = status
        return False

    def poll_until_complete(self, external_id: Any, context: Mapping[str, Any]) -> None:
        """Follow the attempt to its end; one of an earlier try is found again first."""
        _ = context
        if self._outcome is None and external_id != self._attempt.name:
            self._outcome = self._attempt.begin(earlier=str(external_id))
        if self._outcome is None:
            self._outcome = self._attempt.follow()

    def get_job_result(self, external_id: Any, context: Mapping[str, Any]) -> None:
        """Nothing: the outcome is kept by `poll_until_complete`."""

    def on_kill(self) -> None:
        """Airflow gives a task five seconds to stop. The stage has its whole grace, in the care of another process."""
        attempt = getattr(self, "_attempt", None)
        if attempt is not None:
            attempt.interrupt()

    def _resumed(self, context: Mapping[str, Any]) -> Outcome:
        self._forget_if_cleared(context)
        self.execute_resumable(context)  # type: ignore[arg-type] # Airflow's Context is a mapping
        if self._outcome is None:
            raise AssertionError("the mixin ends with submit_job or poll_until_complete, and each leaves an outcome")
        return self._outcome

    def _forget_if_cleared(self, context: Mapping[str, Any]) -> None:
        """Airflow keeps a task's state over a clear. It raises max_tries then, and never else."""
        states, tries = context.get("task_state_store"), context["ti"].max_tries
        if states is not None and states.get(self._tries_key) != tries:
            states.delete(self.external_id_key)
            states.set(self._tries_key, tries)

    def _make_attempt(self, context: Mapping[str, Any]) -> "Attempt":
        from ratchet.runners.choice import choose_runner
        from ratchet.runs.attempt import Attempt
        from ratchet.runs.planning import load_plan

        here = settings.read()
        plan = load_plan(here.store, self.pipeline, store_run_id(context["run_id"]))
        runner, how = choose_runner(here.runner)
        self.log.info("%s of %s for %s; %s", self.stage, self.pipeline, plan.data_date, how)
        task = context["ti"]
        name = f"try{task.try_number}-{str(task.id)[-12:]}-{token_hex(2)}"
        return Attempt(plan, self.stage, runner, name=name, on_event=self._tell)

    def _tell(self, event: "Event") -> None:
        self.log.log(level_of(event), line_of(event), **fields_of(event))
