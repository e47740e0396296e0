"""Whether production moves to a new version, and the record of it.

A change here violates the promise of the project when production moves to a model that was measured against anything
but the model that it replaces.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from ratchet.contracts import paths
from ratchet.contracts.day_record import DayRecord
from ratchet.contracts.parent import parent_digest
from ratchet.contracts.request import Outcome, StageRequest
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.stages import STAGES, Stage
from ratchet.contracts.stored import read_stored
from ratchet.contracts.summaries import Judgement, TrainedModel
from ratchet.production.standing import Standing, standing
from ratchet.store.base import Store
from ratchet.store.ledger import Change, LedgerConflict, Record, append
from tasks.register.rights import approvals_of

_TRIES = 10


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """live: the champion from now on, if any. withheld: why this version is not it, if it is not."""

    live: Record | None
    withheld: str = ""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What may be promoted. version: in the registry. scoring: the package that it was evaluated by."""

    version: str
    judged: Judgement
    trained: TrainedModel
    fingerprint: str
    recipe: str
    scoring: str
    snapshot: Snapshot


def settle(store: Store, request: StageRequest, candidate: Candidate) -> Settlement:
    """Record a version as champion if it may be, and if production is still what it was measured against.

    Where another writer changes the ledger meanwhile, it is decided again, on what the ledger says then.
    """
    change = _change(store, request, candidate)
    for _ in range(_TRIES):
        now = standing(store, request.spec.model_name)
        if now.live is not None and now.live.model_digest == candidate.trained.digest:
            return Settlement(live=now.live, withheld=_other_code(now.live, candidate))
        if withheld := _withheld(now, request, candidate):
            return Settlement(live=now.live, withheld=withheld)
        try:
            return Settlement(live=append(store, change, after=now.number))
        except LedgerConflict as moved:
            conflict = moved
    raise conflict


def _withheld(now: Standing, request: StageRequest, candidate: Candidate) -> str:
    """Why the candidate does not go into production; empty if it does."""
    if request.promotion.mode == "never":
        return request.promotion.reason or "this run does not move production"
    parent = parent_digest(candidate.trained.warm_start)
    if obstacle := now.obstacle(candidate.trained.digest, candidate.recipe, parent=parent):
        return obstacle
    if candidate.judged.offered:
        what = "production cannot be measured, so only a person can replace it"
        return f"{what}: {by_hand(request.spec.model_name, candidate.version)}"
    measured = candidate.judged.baseline.digest if candidate.judged.baseline else None
    return "" if (now.live.model_digest if now.live else None) == measured else _reason(now.live)


def _other_code(live: Record, candidate: Candidate) -> str:
    """Why a version is not in production although its model is: production scores with the code of its evaluation."""
    if not live.scoring or live.scoring == candidate.scoring:
        return ""
    return f"production has the same model as version {live.version}, with the code by which that was evaluated"


def by_hand(model: str, version: str) -> str:
    """The command that puts a version into production."""
    return f'ratchet promote {model}@{version} --because "..."'


def _change(store: Store, request: StageRequest, candidate: Candidate) -> Change:
    judged = candidate.judged
    return Change(
        model=request.spec.model_name,
        action="promote",
        version=candidate.version,
        fingerprint=candidate.fingerprint,
        model_digest=candidate.trained.digest,
        manifests=manifests(store, request),
        data_date=request.data_date,
        window_start=candidate.snapshot.days[0].day,
        pipeline=request.spec.name,
        run_id=request.run_id,
        reason=f"{judged.reason}: {judged.explanation}",
        baseline=judged.baseline.number if judged.baseline else None,
        let_in=let_in(request, candidate.trained, candidate.snapshot),
        recorded=datetime.now(UTC),
        gate=request.spec.gate,
        overrides=request.overrides,
        started_by=request.started_by,
        refit_of=candidate.trained.refit.of if candidate.trained.refit else None,
        verdict=judged.reason,
        gain=judged.gain,
        approvals=approvals_of(request),
        recipe=candidate.recipe,
        scoring=candidate.scoring,
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
    return read_stored(Outcome, data, where=f"the outcome of {stage}").manifest


def _reason(live: Record | None) -> str:
    now = f"version {live.version} of run {live.run_id}, data up to {live.data_date}" if live else "nothing"
    return f"production has moved since the evaluation, to {now}; it was not measured against that"
