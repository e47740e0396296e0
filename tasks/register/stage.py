"""register: a version in MLflow for a model that was judged better, and production moved to it if that is allowed."""

from functools import partial
from pathlib import Path

from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.registration import Registration
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet.model.files import lay_out
from ratchet.model.package import unpack
from ratchet.model.packing import pack
from ratchet.model.zygote import REGISTERED, zygote
from ratchet.production.recipe import recipe
from ratchet.production.reconcile import follow
from ratchet.runtime.context import Finished, StageContext
from ratchet.store.artifacts import read_bytes
from ratchet.tracking.candidates import log_candidate, training_tags
from ratchet.tracking.mlflow import Tracker, track
from ratchet.tracking.use_registry import use_registry
from ratchet.tracking.versions import version_of
from tasks.register.production import Candidate, by_hand, settle
from tasks.register.record import record_version
from tasks.register.rights import check_rights
from tasks.register.trial import try_packed

_MODEL = "model"


def run(ctx: StageContext) -> Finished:
    """Register, record, point the alias. Every step finds what an earlier try has done of it."""
    request, model = ctx.request, ctx.spec.model_name
    training = ctx.upstream("refit" if ctx.spec.train.refit else "train")
    evaluated = ctx.upstream("evaluate")
    judged, trained = summaries.judgement(evaluated), summaries.trained(training)
    if not judged.has_version:
        raise ConfigurationError(
            f"register: the verdict is {judged.verdict} ({judged.reason}), so there is nothing to register",
            remedy="run register only after a verdict of promote",
        )
    if judged.verdict == "promote":  # what is offered goes into production by hand alone
        check_rights(ctx)
    if trained.refit is not None and trained.refit.refused:
        raise ConfigurationError(
            f"register: {trained.refit.refused}", remedy="run register only for a refit that is not refused"
        )
    zygote(*REGISTERED)  # it loads libraries while this process loads its own
    scoring = _scoring(ctx, evaluated)
    with ctx.phase("version"):
        register = partial(_register, ctx, training, evaluated, scoring)
        run, version = track(ctx.store, request.tracking_uri, ctx.scratch, register)
    with ctx.phase("authority"):
        _follow(ctx)
    with ctx.phase("ledger"):
        candidate = Candidate(
            version=version,
            judged=judged,
            trained=trained,
            fingerprint=training.fingerprint,
            recipe=recipe(ctx.upstream("train").parts),
            scoring=scoring.name,
            snapshot=summaries.snapshot(ctx.upstream("ingest")),
        )
        settled = settle(ctx.store, request, candidate)
    live = settled.live
    with ctx.phase("alias"):
        _follow(ctx)
    promoted = live is not None and not settled.withheld
    said = "is in production now" if promoted else f"does not go into production: {settled.withheld}"
    ctx.log.event("registered", f"{model} version {version} {said}", model=model, version=version, promoted=promoted)
    return Finished(
        content=digest_of([model, trained.digest, training.fingerprint]),
        summary=Registration(
            model=model,
            version=version,
            mlflow_run_id=run,
            promoted=promoted,
            withheld=settled.withheld,
            command=by_hand(model, version) if judged.offered else "",
            ledger_number=live.number if live is not None and promoted else None,
            refit_of=trained.refit.of if trained.refit else None,
        ),
    )


def _follow(ctx: StageContext) -> None:
    """Let the alias follow the ledger. Raises what does not allow a decision about production."""
    model = ctx.spec.model_name
    work = partial(follow, ctx.store, model)
    use_registry(ctx.store, ctx.request.tracking_uri, ctx.scratch, work).refuse()


def _register(
    ctx: StageContext, training: StageResult, evaluated: StageResult, scoring: Path, tracker: Tracker
) -> tuple[str, str]:
    """(MLflow run, version) of the training.

    training: what is shipped. The run is that of the measured training, whose figures it shows.
    """
    request = ctx.request
    ingested = ctx.upstream("ingest")
    results: dict[Stage, StageResult] = {"ingest": ingested, "train": ctx.upstream("train"), "evaluate": evaluated}
    shipped = summaries.trained(training)
    repeated = ""
    if shipped.refit is not None:
        results["refit"] = training
        repeated = f"a refit of the measured model {shipped.refit.of[:12]} on days up to {shipped.split.train[-1]}; "
    snapshot = summaries.snapshot(ingested)
    run = log_candidate(tracker, request, results)
    judged = summaries.judgement(evaluated)
    tags = {
        **training_tags(request, shipped),
        "ratchet.snapshot": f"{snapshot.table}@{snapshot.version}",
    }
    version = version_of(
        tracker,
        request.spec.model_name,
        training.fingerprint,
        scoring.name,
        run=run,
        tags=tags,
        description=f"{request.data_date}: {repeated}{judged.explanation}"[:4000],
        upload=partial(_upload, ctx, training, scoring, tags, tracker),
    )
    record_version(ctx, tracker, version=version, mlflow_run=run)
    return run, version


def _scoring(ctx: StageContext, evaluated: StageResult) -> Path:
    """The package that the candidate was scored by, and no other: what is served is what was evaluated."""
    if "scoring" not in evaluated.outputs:
        raise CorruptArtifact("an evaluate result has no scoring", remedy="evaluate again with --rebuild")
    return unpack(read_bytes(ctx.store, evaluated.outputs["scoring"]), ctx.scratch / "scoring")


def _upload(
    ctx: StageContext, training: StageResult, scoring: Path, tags: dict[str, str], tracker: Tracker, run: str
) -> str:
    packed = ctx.scratch / "packed"
    if not packed.exists():
        trained = lay_out(ctx.store, training, ctx.scratch / "trained", ctx.scratch)
        pack(ctx.spec, trained, scoring, packed, pins=ctx.request.pins, tags=tags)
        asked = training if ctx.spec.train.refit else ctx.upstream("evaluate")  # a refit was asked itself
        try_packed(ctx.store, asked, packed, ctx.scratch)
    place = f"{_MODEL}-{scoring.name.rpartition('_')[2]}"  # the run may hold a version with other code
    if (shipped := summaries.trained(training)).refit is not None:  # and refits of other code, and the measured model
        place = f"{place}-refit-{shipped.digest[:12]}"
    tracker.client.log_artifacts(run, str(packed), place)
    return f"{tracker.client.get_run(run).info.artifact_uri}/{place}"
