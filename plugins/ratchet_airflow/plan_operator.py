"""The first task of a pipeline, which plans the run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.request import AsOf
from ratchet.contracts.stages import StageSettings
from ratchet_airflow import form, settings
from ratchet_airflow.data_date import data_date, run_kind
from ratchet_airflow.outages import USUAL, OnOutage, waits_for_outages
from ratchet_airflow.run_id import store_run_id


class PlanOperator(BaseOperator):
    """Plans the run, and writes the plan into the store. Its value is the plan's address."""

    ui_color = "#e8eaf6"

    def __init__(
        self,
        *,
        folder: Path,
        timezone: str,
        handling: StageSettings = USUAL,
        on_outage: OnOutage | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.handling, self.on_outage, self.has_waited = handling, on_outage, False
        self.folder = folder
        self.timezone = timezone

    @waits_for_outages
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
        folder = self.folder.resolve()  # of pipelines from git: one commit, also where the next one comes meanwhile
        spec = load(folder, changed)
        day = data_date(context, self.timezone)
        kind = run_kind(context)
        promotion = form.promotion(asked, kind, day, spec.register_.promote)
        as_of: AsOf = asked.get("as_of") or ("then" if kind == "backfill" else "now")
        runner, how = choose_runner(environment().runner, patient=True)
        try:
            image, named = choose_image(runner, gpu=spec.resources["train"].gpus > 0)
        except ConfigurationError as error:  # a person has yet to build it, as after one was deleted
            raise Unavailable(error.cause, remedy=error.remedy) from error
        plan = make_plan(
            folder=folder,
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
