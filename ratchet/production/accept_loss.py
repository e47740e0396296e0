"""A person's decision to go on with a ledger that has lost records.

What serves goes on serving if it was champion before: the lost record may have been a rollback to it. Production is
held afterwards: the lost records may have held it, or banned a model. A change here violates the promise of the project
when a loss is accepted without a person and a reason, or when it lets a model serve that a lost record took out.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from ratchet.contracts.errors import ConfigurationError
from ratchet.production.by_hand import LONGEST, by_hand, check_words, live_of, record_decision
from ratchet.production.findings import LOSSES
from ratchet.production.reconcile import Reconciled, reconcile
from ratchet.production.rollback import rollback
from ratchet.production.standing import Standing, standing
from ratchet.store.base import Store
from ratchet.store.ledger import Change, Record
from ratchet.store.ledger_cut import cut_to_whole
from ratchet.tracking.use_registry import use_registry


def accept_loss(store: Store, tracking_uri: str | None, model: str, *, by: str, because: str) -> Record | None:
    """Cut a ledger to the records that are whole, hold production, and let the alias follow; the record of the hold.

    None if no record is whole: then the ledger is empty, and `ratchet promote MODEL@VERSION` begins it. Raises
    ConfigurationError if nothing is lost.
    """
    check_words(by, because, flag="--accept-loss")
    found = reconcile(store, tracking_uri, model, look=True)
    _refuse_whole(model, found)
    digest = _alias(store, tracking_uri, model)  # before the cut: a registry that does not answer leaves all as it is
    number = cut_to_whole(store, model)
    now = standing(store, model)
    if now.live is None:
        return None
    why = f"records after number {number} were lost: {because}"[:LONGEST]
    served = _served(now, now.live, digest)
    if served is not None:
        rollback(store, model, version=served, by=by, because=why)

    def decide(now: Standing) -> Change:
        return by_hand(live_of(now), "hold", by=by, because=why)

    record = record_decision(store, model, decide)
    reconcile(store, tracking_uri, model, force=True)
    return record


def _alias(store: Store, tracking_uri: str | None, model: str) -> str:
    """The digest of the model that the alias names; empty if there is none."""
    with TemporaryDirectory(prefix="ratchet-") as scratch:
        alias = use_registry(store, tracking_uri, Path(scratch), lambda registry: registry.champion(model))
    return alias.digest if alias is not None else ""


def _served(now: Standing, live: Record, digest: str) -> str | None:
    """The version of an earlier champion that serves and is not banned; None if another one serves, or the live one."""
    if digest == live.model_digest:
        return None
    reigns = (record for record in now.history if record.moves_production and record.model_digest == digest)
    return next((record.version for record in reigns if now.ban_of(digest, record.recipe) is None), None)


def _refuse_whole(model: str, found: Reconciled) -> None:
    if not found.shows(*LOSSES):
        raise ConfigurationError(f"the ledger of {model} has lost nothing", remedy="nothing has to be accepted")
