"""The record of a version: collected from what the stages published, stored, and put beside the model in MLflow."""

from collections.abc import Mapping
from datetime import UTC, datetime

from ratchet.contracts import bundle, summaries
from ratchet.contracts.result import PublishedResult, StageResult
from ratchet.contracts.stages import STAGES, TRAININGS, Stage
from ratchet.contracts.summaries import FeatureSet
from ratchet.contracts.version_record import RecordedStage, VersionRecord
from ratchet.runtime.context import StageContext
from ratchet.store.publishing import read_manifest
from ratchet.store.version_records import keep_record
from ratchet.tracking.mlflow import Tracker
from tasks.register.production import let_in, manifests
from tasks.register.rights import approvals_of

_NAME = "record.json"


def record_version(ctx: StageContext, tracker: Tracker, *, version: str, mlflow_run: str) -> None:
    """Write the record of a version, if it has none yet, and put it beside the model. Safe to call again."""
    record = collect(ctx, version=version, mlflow_run=mlflow_run)
    path = ctx.scratch / _NAME
    path.write_bytes(keep_record(ctx.store, record))
    made = tracker.client.get_model_version(record.model, version)  # perhaps by an earlier run
    tracker.client.log_artifact(made.run_id, str(path), made.source.rpartition("/artifacts/")[2])


def collect(ctx: StageContext, *, version: str, mlflow_run: str) -> VersionRecord:
    """The record of a version, from the manifests of its run."""
    request, results = ctx.request, _results(ctx)
    training, evaluated = results["train"].result, results["evaluate"].result
    trained, snapshot = summaries.trained(training), summaries.snapshot(results["ingest"].result)
    refit = summaries.trained(results["refit"].result) if "refit" in results else None
    trainings = {stage: found.result.outputs for stage, found in results.items() if stage in TRAININGS}
    features = _features(results)
    fitted = results["features"].result.outputs["fitted"].sha256 if features else None
    return VersionRecord(
        model=request.spec.model_name,
        version=version,
        digest=(refit or trained).digest,
        mlflow_run_id=mlflow_run,
        registered=datetime.now(UTC),
        pipeline=request.spec.name,
        run_id=request.run_id,
        kind=request.kind,
        data_date=request.data_date,
        started_by=request.started_by,
        approvals=approvals_of(request),
        promotion=request.promotion,
        spec=request.spec,
        columns=tuple(request.spec.columns),
        overrides=request.overrides,
        bundle=request.bundle,
        files=bundle.digests(ctx.folder),
        pins=request.pins,
        seed=request.spec.train.seed,
        snapshot=snapshot,
        excluded=summaries.validation(results["validate"].result).excluded if "validate" in results else (),
        let_in=let_in(request, refit or trained, snapshot),
        arrays={day.day: {name: array.sha256 for name, array in day.arrays.items()} for day in features.days}
        if features
        else {},
        fitted=fitted,
        trained=trained,
        refit=refit,
        weights={stage: outputs["weights"] for stage, outputs in trainings.items()},
        traces={stage: outputs["trace"] for stage, outputs in trainings.items() if "trace" in outputs},
        gate=request.spec.gate,
        judgement=summaries.judgement(evaluated),
        scores=evaluated.outputs.get("scores"),
        stages={stage: _recorded(found) for stage, found in results.items()},
    )


def _results(ctx: StageContext) -> dict[Stage, PublishedResult]:
    """The results that led to the version. Register's own inputs are read as it was given them."""
    keys = manifests(ctx.store, ctx.request)
    return {stage: read_manifest(ctx.store, keys[stage]) for stage in STAGES if stage in keys}


def _features(results: Mapping[Stage, PublishedResult]) -> FeatureSet | None:
    return summaries.features(results["features"].result) if "features" in results else None


def _recorded(found: PublishedResult) -> RecordedStage:
    result: StageResult = found.result
    return RecordedStage(
        manifest=found.key,
        fingerprint=result.fingerprint,
        content=result.content,
        parts=result.parts,
        environment=result.environment,
        attempt=result.attempt,
        finished=result.finished,
        timings=result.timings,
    )
