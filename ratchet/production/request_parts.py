"""What the ledger adds to the fingerprints of register and report, so that no cached result speaks of another state.

A change here violates the promise of the project when a candidate that was withheld for a reason that has passed stays
withheld, or a cached night claims to be in production.
"""

from ratchet.contracts import summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.parent import parent_digest
from ratchet.contracts.request import StageRequest
from ratchet.contracts.result import StageResult
from ratchet.production.recipe import recipe
from ratchet.production.standing import standing
from ratchet.store.base import Store
from ratchet.store.ledger import Record, champion, records


def obstacle_parts(store: Store, model: str, training: StageResult, refit: StageResult | None) -> dict[str, str]:
    """Of register: why the ledger lets nothing, or not this model, into production; nothing where it does.

    training: of the measured model. refit: of what is shipped in its place, if that is a refit.
    """
    try:
        now = standing(store, model)
    except CorruptArtifact:
        return {"obstacle": "the ledger is damaged"}
    made = summaries.trained(refit or training)
    digest = made.digest
    if now.live is not None and now.live.model_digest == digest:
        return {}
    obstacle = now.obstacle(digest, recipe(training.parts), parent=parent_digest(made.warm_start))
    return {"obstacle": obstacle} if obstacle else {}


def moved_parts(store: Store, model: str, shipped: StageResult, evaluated: StageResult) -> dict[str, str]:
    """Of register: who is in production, if it is neither whom the candidate was measured against nor the candidate.

    Nor one that was promoted after the candidate had its time in production: then nothing is left to decide.
    """
    try:
        live = _digest(champion(store, model))
    except CorruptArtifact:
        return {}
    baseline, digest = summaries.judgement(evaluated).baseline, summaries.trained(shipped).digest
    measured = baseline.digest if baseline else ""
    known = live in {measured, digest} or was_replaced(store, model, digest)
    return {} if known else {"moved": live or "none"}


def holds_still(store: Store, request: StageRequest, shipped: StageResult, registered: StageResult) -> bool:
    """Whether a published result of register is what register would say now.

    Without an obstacle, the candidate goes into production; so a result by which it did not, or that was followed by a
    rollback which is released by now, speaks of a moment that has passed. A withheld candidate is final only with its
    reason, which is part of the fingerprint.
    """
    if request.promotion.mode == "never" or {"obstacle", "moved", "authority"} & request.parts.keys():
        return True
    model, digest = request.spec.model_name, summaries.trained(shipped).digest
    served = _digest(champion(store, model)) == digest or was_replaced(store, model, digest)
    return summaries.registration(registered).promoted and served


def live_parts(store: Store, model: str) -> dict[str, str]:
    """Of report: who is in production, which its page says."""
    try:
        live = champion(store, model)
    except CorruptArtifact:
        return {"production": "the ledger is damaged"}
    return {"production": _digest(live) or "none"}


def was_replaced(store: Store, model: str, digest: str) -> bool:
    """Whether a model was in production until another one was promoted, and not taken out of it by a person.

    Then its night has nothing left to decide, and register's result of that night holds still. False for a damaged
    ledger, which says nothing.
    """
    try:
        reigns = [record for record in records(store, model) if record.moves_production]
    except CorruptArtifact:
        return False
    last = max((place for place, record in enumerate(reigns) if record.model_digest == digest), default=len(reigns))
    return last + 1 < len(reigns) and reigns[last + 1].action == "promote"


def _digest(record: Record | None) -> str:
    return record.model_digest if record else ""
