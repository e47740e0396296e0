"""What the ledger adds to the fingerprints of register and report, so that no cached result speaks of another state."""

from ratchet.contracts import summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.result import StageResult
from ratchet.production.recipe import recipe
from ratchet.production.standing import standing
from ratchet.store.base import Store
from ratchet.store.ledger import champion


def obstacle_parts(store: Store, model: str, training: StageResult, refit: StageResult | None) -> dict[str, str]:
    """Of register: why the ledger lets nothing, or not this model, into production; nothing where it does.

    training: of the measured model. refit: of what is shipped in its place, if that is a refit.
    """
    try:
        now = standing(store, model)
    except CorruptArtifact:
        return {"obstacle": "the ledger is damaged"}
    digest = summaries.trained(refit or training).digest
    if now.live is not None and now.live.model_digest == digest:
        return {}
    obstacle = now.obstacle(digest, recipe(training.parts))
    return {"obstacle": obstacle} if obstacle else {}


def live_parts(store: Store, model: str) -> dict[str, str]:
    """Of report: who is in production, which its page says."""
    try:
        live = champion(store, model)
    except CorruptArtifact:
        return {"production": "the ledger is damaged"}
    return {"production": live.model_digest if live else "none"}
