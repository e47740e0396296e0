"""Whether production moves to a new version, and the record of it.

A change here violates the promise of the project when production moves to a model that was measured against anything
but the model that it replaces.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from ratchet.contracts import paths
from ratchet.contracts.day_record import DayRecord
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.request import Outcome, StageRequest
from ratchet.contracts.stages import STAGES, Stage
from ratchet.contracts.summaries import Judgement, Snapshot, TrainedModel
from ratchet.store.base import Store
from ratchet.store.ledger import Change, LedgerConflict, Record, append, champion
from ratchet.tracking.production import CHAMPION


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """live: the champion from now on, if any. withheld: why this version is not it, if it is not."""

    live: Record | None
    withheld: str = ""


def settle(
    store: Store,
    request: StageRequest,
    *,
    version: str,
    newest: int,
    judged: Judgement,
    trained: TrainedModel,
    fingerprint: str,
    snapshot: Snapshot,
) -> Settlement:
    """Record a version as champion if it may be, and if production is still what it was measured against.

    newest: the number of a record of the ledger that the registry knows. Raises CorruptArtifact if the ledger ends
    before it: what was measured against is not production then.
    """
    model = request.spec.model_name
    live = champion(store, model)
    _refuse_lost(model, live, newest)
    if live is not None and live.model_digest == trained.digest:
        return Settlement(live=live)
    if request.promotion.mode == "never":
        return Settlement(live=live, withheld=request.promotion.reason or "this run does not move production")
    measured = judged.baseline.number if judged.baseline else 0
    if (live.number if live else 0) != measured:
        return Settlement(live=live, withheld=_reason(live))
    change = Change(
        model=model,
        action="promote",
        version=version,
        fingerprint=fingerprint,
        model_digest=trained.digest,
        manifests=manifests(store, request),
        data_date=request.data_date,
        window_start=snapshot.days[0].day,
        pipeline=request.spec.name,
        run_id=request.run_id,
        reason=f"{judged.reason}: {judged.explanation}",
        baseline=judged.baseline.number if judged.baseline else None,
        let_in=let_in(request, trained, snapshot),
        recorded=datetime.now(UTC),
        gate=request.spec.gate,
        overrides=request.overrides,
        started_by=request.started_by,
        refit_of=trained.refit.of if trained.refit else None,
    )
    try:
        return Settlement(live=append(store, change, after=measured))
    except LedgerConflict as moved:
        if moved.winner.model_digest == trained.digest:
            return Settlement(live=moved.winner)
        return Settlement(live=champion(store, model), withheld=_reason(moved.winner))


def _refuse_lost(model: str, live: Record | None, newest: int) -> None:
    last = live.number if live else 0
    if newest <= last:
        return
    due = paths.ledger_record(model, last + 1)
    without = f"set the alias to version {live.version}" if live else "remove the alias"
    raise CorruptArtifact(
        f"the ledger of {model} ends with record {last}, and MLflow's alias {CHAMPION} names a version by its record "
        f"{newest}",
        remedy=f"restore {due} from a backup; or, to go on without it, {without}",
    )


def let_in(request: StageRequest, trained: TrainedModel, snapshot: Snapshot) -> tuple[DayRecord, ...]:
    """The days of the model's data that a person let in although their own run had refused them."""
    used = {*trained.split.train, *trained.split.valid, *trained.split.holdout}
    return tuple(one for one in request.days.counted(snapshot) if one.day in used)


def manifests(store: Store, request: StageRequest) -> dict[str, str]:
    """Keys of the manifests of the run so far, by stage: of the stages that led here, and of those beside them."""
    found = {str(stage): given.manifest for stage, given in request.inputs.items()}
    for stage in STAGES:
        if stage not in found and (key := _manifest(store, request, stage)):
            found[stage] = key
    return found


def _manifest(store: Store, request: StageRequest, stage: Stage) -> str | None:
    if stage in {"register", "report"}:
        return None
    try:
        data = store.read(paths.outcome(request.spec.name, request.run_id, stage))
    except FileNotFoundError:
        return None
    return Outcome.model_validate_json(data).manifest


def _reason(live: Record | None) -> str:
    now = f"version {live.version} of run {live.run_id}, data up to {live.data_date}" if live else "nothing"
    return f"production has moved since the evaluation, to {now}; it was not measured against that"
