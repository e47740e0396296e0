"""Where a registered version comes from: its run, the results of its stages, and what the ledger records of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import STAGES, Stage
from ratchet.production.recipe import recipe
from ratchet.store.base import Store
from ratchet.store.ledger import Record
from ratchet.tracking.registry import FINGERPRINT, PIPELINE, RUN, Version


@dataclass(frozen=True, kw_only=True)
class Origin:
    """record: as if the version were the champion. approvals: how many people its pipeline asks for."""

    record: Record
    trained: StageResult
    evaluated: StageResult
    recipe: str
    approvals: int


def origin_of(store: Store, model: str, version: Version, *, pipelines: Iterable[str]) -> Origin:
    """Find the run of a version. pipelines: where to look if its tags do not name one.

    Raises ConfigurationError if the store has no whole record of that run.
    """
    run_id = version.tags.get(RUN, "")
    for pipeline in dict.fromkeys(filter(None, (version.tags.get(PIPELINE, ""), *pipelines, model))):
        plan = _plan(store, pipeline, run_id)
        if plan is None:
            continue
        ended = {stage: found for stage in STAGES if (found := _outcome(store, pipeline, run_id, stage))}
        results = {stage: outcome.result for stage, outcome in ended.items() if outcome.result is not None}
        if {"ingest", "train", "evaluate"} <= results.keys():
            manifests = {str(stage): one.manifest for stage, one in ended.items() if one.manifest}
            return _origin(model, version, plan, results, manifests)
    raise ConfigurationError(
        f"the store has no record of run {run_id or '?'}, which made version {version.number} of {model}",
        remedy="check --store; a version whose run is gone can serve, but not enter the ledger: train it again",
    )


def _origin(
    model: str, version: Version, plan: RunPlan, results: dict[Stage, StageResult], manifests: dict[str, str]
) -> Origin:
    shipped = results.get("refit", results["train"])
    trained, snapshot = summaries.trained(shipped), summaries.snapshot(results["ingest"])
    used = {*trained.split.train, *trained.split.valid, *trained.split.holdout}
    made_by = recipe(results["train"].parts)
    record = Record(
        number=1,
        model=model,
        action="promote",
        version=version.number,
        fingerprint=version.tags.get(FINGERPRINT) or shipped.fingerprint,
        model_digest=version.digest,
        manifests={name: key for name, key in manifests.items() if name not in {"register", "report"}},
        data_date=plan.data_date,
        window_start=snapshot.days[0].day,
        pipeline=plan.spec.name,
        run_id=plan.run_id,
        reason="",
        baseline=None,
        let_in=tuple(one for one in plan.days.counted(snapshot) if one.day in used),
        recorded=datetime.now(UTC),
        recipe=made_by,
        refit_of=trained.refit.of if trained.refit else None,
        scoring=version.scoring,
    )
    return Origin(
        record=record,
        trained=shipped,
        evaluated=results["evaluate"],
        recipe=made_by,
        approvals=int(getattr(plan.spec.register_, "approvals", 1)),
    )


def _plan(store: Store, pipeline: str, run_id: str) -> RunPlan | None:
    if not run_id:
        return None
    try:
        return RunPlan.model_validate_json(store.read(paths.plan(pipeline, run_id)))
    except FileNotFoundError:
        return None


def _outcome(store: Store, pipeline: str, run_id: str, stage: Stage) -> Outcome | None:
    try:
        return Outcome.model_validate_json(store.read(paths.outcome(pipeline, run_id, stage)))
    except FileNotFoundError:
        return None
