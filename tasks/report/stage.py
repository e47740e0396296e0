"""report: writes the page of a run, also of a failed one, and logs every judged candidate to MLflow."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import Field

from ratchet.contracts import paths, summaries
from ratchet.contracts.document import Document
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.request import Outcome
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import STAGES, Stage
from ratchet.contracts.summaries import Check, Split, Validation
from ratchet.production.reconcile import reconcile, sentences
from ratchet.runtime.context import Finished, StageContext
from ratchet.store.documents import read_document
from ratchet.store.ledger import Record, champion
from ratchet.tracking.candidates import log_candidate
from ratchet.tracking.mlflow import track
from ratchet.tracking.production import mend
from tasks.report.page import RunFacts, render


class Report(Document):
    """report: the page of the run."""

    kept: str = Field(description="The key of the page in the run's records, in addition to the output `page.html`.")


def run(ctx: StageContext) -> Finished:
    """Write `page.html`, as an output and with the run's records. Logs and leaves out a result that cannot be read."""
    results = _results(ctx)
    with ctx.phase("page"):
        known = facts(ctx, results)
        published = ctx.request.prefix.count("/") + 2
        ctx.transaction.add("page.html", _page(ctx, known, below=published))
        kept = ctx.keep(
            "report.html", _page(ctx, known, below=paths.run(ctx.spec.name, ctx.request.run_id).count("/") + 1)
        )
    if {"ingest", "train", "evaluate"} <= set(results) and "register" not in results:
        with ctx.phase("tracking"):
            _log(ctx, results)
            _check_production(ctx)
    # The bytes of the page differ between attempts, in times and paths. Its content is the outcomes in the fingerprint.
    return Finished(content=digest_of(ctx.request.fingerprint), summary=Report(kept=kept))


def _page(ctx: StageContext, known: RunFacts, *, below: int) -> Path:
    """Write the page for a place so many folders below the store's root; its links are relative."""
    checks = paths.kept(ctx.spec.name, ctx.request.run_id, "validate", "validation.html")
    if ctx.store.head(checks) is not None:
        known = replace(known, checks=f"{'../' * below}{checks}")
    logs = {stage: f"{'../' * below}{outcome.log}" for stage, outcome in known.outcomes.items() if outcome.log}
    known = replace(known, logs=logs)
    path = ctx.scratch / f"report-{below}.html"
    path.write_text(render(known), encoding="utf-8")
    return path


def facts(ctx: StageContext, results: dict[Stage, StageResult]) -> RunFacts:
    """The facts of the run."""
    features = summaries.features(results["features"]) if "features" in results else None
    trained = summaries.trained(results["train"]) if "train" in results else None
    refit = summaries.trained(results["refit"]) if "refit" in results else None
    live, shipped = _live(ctx), refit or trained
    split: Split | None = trained.split if trained else features.split if features else None
    return RunFacts(
        request=ctx.request,
        outcomes=_outcomes(ctx),
        snapshot=summaries.snapshot(results["ingest"]) if "ingest" in results else None,
        validation=_validation(ctx, results),
        trained=trained,
        refit=refit,
        judged=summaries.judgement(results["evaluate"]) if "evaluate" in results else None,
        registered=summaries.registration(results["register"]) if "register" in results else None,
        numbers=results["evaluate"].metrics if "evaluate" in results else {},
        unlabelled=sum(day.unlabelled for day in features.days) if features else 0,
        split=split,
        production=_production(live),
        replaced=_replaced(live, shipped.digest if shipped else ""),
        derived_checks=features.checks if features else _kept_checks(ctx, "features"),
        derived_excluded=features.excluded if features else (),
    )


def _live(ctx: StageContext) -> Record | RatchetError | None:
    """The record of the champion; the error, with a warning in the log, if the ledger cannot be read."""
    try:
        return champion(ctx.store, ctx.spec.model_name)
    except RatchetError as error:
        ctx.log.event("warning", f"the page leaves out the model in production: {error.cause}", level="warning")
        return error


def _production(live: Record | RatchetError | None) -> str:
    """What is in production, as a sentence; empty if that is not known."""
    if isinstance(live, RatchetError):
        return ""
    return f"Production stays at version {live.version}." if live else "No model is in production."


def _replaced(live: Record | RatchetError | None, digest: str) -> str:
    """Why a model is not in production, as a sentence; empty if it is."""
    if isinstance(live, RatchetError):
        return f"What is in production is not known: {live.cause}."
    if live is None:
        return "The ledger names no model in production."
    now = f"Record {live.number} of the ledger put version {live.version} into production ({live.action})."
    return "" if live.model_digest == digest else now


def _validation(ctx: StageContext, results: dict[Stage, StageResult]) -> Validation | None:
    """What validate found out, also if it refused the data."""
    return summaries.validation(results["validate"]) if "validate" in results else _kept(ctx, "validate")


def _kept_checks(ctx: StageContext, stage: Stage) -> tuple[Check, ...]:
    kept = _kept(ctx, stage)
    return kept.checks if kept else ()


def _kept(ctx: StageContext, stage: Stage) -> Validation | None:
    """The checks that a stage kept with the run because it refused the data."""
    try:
        return read_document(ctx.store, paths.checks(ctx.spec.name, ctx.request.run_id, stage), Validation)
    except FileNotFoundError:
        return None


def _results(ctx: StageContext) -> dict[Stage, StageResult]:
    found: dict[Stage, StageResult] = {}
    for stage in ctx.request.inputs:
        try:
            found[stage] = ctx.upstream(stage)
        except RatchetError as error:
            ctx.log.event("warning", f"the page leaves out {stage}: {error.cause}", level="warning")
    return found


def _outcomes(ctx: StageContext) -> dict[Stage, Outcome]:
    found: dict[Stage, Outcome] = {}
    for stage in STAGES:
        if stage == ctx.request.stage:
            continue
        try:
            key = paths.outcome(ctx.spec.name, ctx.request.run_id, stage)
            found[stage] = read_document(ctx.store, key, Outcome)
        except FileNotFoundError:
            continue
    return found


def _log(ctx: StageContext, results: dict[Stage, StageResult]) -> None:
    """Log a candidate to MLflow that was not registered. If that fails, the stage still publishes the page."""
    try:
        track(
            ctx.store,
            ctx.request.tracking_uri,
            ctx.scratch,
            lambda tracker: log_candidate(tracker, ctx.request, results),
        )
    except Exception as error:  # noqa: BLE001 - whatever MLflow raises, the page is published
        cause = error.cause if isinstance(error, RatchetError) else f"{type(error).__name__}: {error}"
        ctx.log.event("warning", f"this candidate is not in MLflow: {cause}", level="warning")


def _check_production(ctx: StageContext) -> None:
    """Let the alias follow the ledger, and log what is wrong with production. The page is published in any case."""
    model, uri = ctx.spec.model_name, ctx.request.tracking_uri
    try:
        found = reconcile(ctx.store, uri, model)
        lines = list(sentences(model, found))
        if found.agrees and found.live is not None:
            check = partial(mend, store=ctx.store, live=found.live, version=found.version, scratch=ctx.scratch)
            lines += track(ctx.store, uri, ctx.scratch, check)
    except Exception as error:  # noqa: BLE001 - whatever MLflow raises, the page is published
        cause = error.cause if isinstance(error, RatchetError) else f"{type(error).__name__}: {error}"
        lines = [f"production was not checked: {cause}"]
    for line in lines:
        ctx.log.event("production", line, level="warning")
