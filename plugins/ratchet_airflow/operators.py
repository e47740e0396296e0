"""The tasks of a pipeline: the plan, and its stages. What they do is in tasks/chain; here it meets Airflow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from ratchet_airflow import form, settings
from ratchet_airflow.data_date import data_date, run_kind
from ratchet_airflow.links import links_of
from ratchet_airflow.progress import level_of, line_of
from ratchet_airflow.run_id import store_run_id
from tasks.contracts.operations import Stage
from tasks.contracts.result import StageResult

_KILL_GRACE_S = 3.0
"""Airflow kills a task 5 seconds after it told it to stop. The container has to be gone by then."""


class PlanOperator(BaseOperator):
    """Decides everything about the run, and writes it down in the store. Its value is the plan's address."""

    ui_color = "#e8eaf6"

    def __init__(self, *, folder: Path, timezone: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = folder
        self.timezone = timezone

    def execute(self, context: Mapping[str, Any]) -> str:
        """Plan the run. Raises ConfigurationError for what the form or the file says wrong."""
        from tasks.chain.planning import make_plan  # noqa: PLC0415 - the DAG file is parsed without it
        from tasks.contracts import paths  # noqa: PLC0415
        from tasks.contracts.loading import load  # noqa: PLC0415
        from tasks.runners.choosing import choose_runner  # noqa: PLC0415

        here = settings.read()
        asked = context["params"]
        changed = form.overrides(asked)
        spec = load(self.folder, changed)
        day = data_date(context, self.timezone)
        _, image, how = choose_runner(here.runner, gpu=spec.resources["train"].gpus > 0)
        plan = make_plan(
            folder=self.folder,
            spec=spec,
            data_date=day,
            run_id=store_run_id(context["run_id"]),
            kind=run_kind(context),
            store_uri=here.store,
            tracking_uri=here.tracking,
            overrides={key: str(value) for key, value in changed.items()},
            rebuild=bool(asked.get("rebuild")),
            promote=asked.get("promote"),
            image=image,
        )
        champion = f"version {plan.champion.version}" if plan.champion else "none yet"
        self.log.info("%s: data of %s and the %d days before it", spec.name, plan.data_date, len(plan.source) - 1)
        for key, value in sorted(plan.overrides.items()):
            self.log.info("%s = %s, as the form says", key, value)
        self.log.info("champion: %s; promotion: %s %s", champion, plan.promotion.mode, plan.promotion.reason)
        self.log.info("%s", how)
        return f"{plan.store}/{paths.plan(spec.name, plan.run_id)}"


class StageOperator(BaseOperator):
    """One stage: found in the cache, or run by the runner. Its value is the manifest's address.

    Skipped where there is nothing to do, which is a verdict, not a failure.
    """

    ui_color = "#e0f2f1"

    def __init__(self, *, pipeline: str, stage: Stage, **kwargs: Any) -> None:
        super().__init__(task_id=stage, **kwargs)
        self.pipeline = pipeline
        self.stage = stage
        self.operator_extra_links = links_of(stage)
        self.result: StageResult | None = None
        """What came of it. Set by execute; the links and the callbacks after it read it."""
        self.why_skipped: str | None = None
        self._labels: dict[str, str] = {}

    def execute(self, context: Mapping[str, Any]) -> str:
        """Bring the stage to its end. Raises the RatchetError that says why it failed."""
        from tasks.chain.execution import execute  # noqa: PLC0415 - the DAG file is parsed without it
        from tasks.chain.planning import load_plan  # noqa: PLC0415
        from tasks.runners.choosing import choose_runner  # noqa: PLC0415

        here = settings.read()
        plan = load_plan(here.store, self.pipeline, store_run_id(context["run_id"]))
        runner, _, how = choose_runner(here.runner, gpu=plan.spec.resources[self.stage].gpus > 0)
        self.log.info("%s of %s for %s; %s", self.stage, self.pipeline, plan.data_date, how)
        task = context["ti"]
        self._runner, self._labels = runner, {"ratchet.run": plan.run_id, "ratchet.stage": self.stage}
        outcome = execute(
            plan,
            self.stage,
            runner=runner,
            attempt=f"try{task.try_number}-{str(task.id)[-12:]}",
            on_event=lambda event: self.log.log(level_of(event), "%s", line_of(event)),
        )
        if outcome.state == "skipped":
            self.why_skipped = outcome.because
            raise AirflowSkipException(outcome.because)
        self.log.info("%s: %s", "found in the cache" if outcome.cached else "built", outcome.because)
        self.result = outcome.result
        return f"{plan.store}/{outcome.manifest}"

    def on_kill(self) -> None:
        """Stop what runs, within the few seconds that Airflow gives."""
        if self._labels:
            for handle in self._runner.find(self._labels):
                self._runner.stop(handle, _KILL_GRACE_S)
