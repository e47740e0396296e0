"""A person's decision to go on with a ledger that has lost records.

Production is held afterwards: the lost records may have held it, or banned a model. A change here violates the promise
of the project when a loss is accepted without a person and a reason.
"""

from ratchet.contracts.errors import ConfigurationError
from ratchet.production.by_hand import by_hand, check_words, live_of, record_decision
from ratchet.production.reconcile import Reconciled, reconcile
from ratchet.production.standing import Standing, standing
from ratchet.store.base import Store
from ratchet.store.ledger import Change, Record
from ratchet.store.ledger_cut import cut_to_whole

_LOSSES = frozenset({"ledger-behind", "ledger-damaged"})


def accept_loss(store: Store, tracking_uri: str | None, model: str, *, by: str, because: str) -> Record | None:
    """Cut a ledger to the records that are whole, hold production, and let the alias follow; the record of the hold.

    None if no record is whole: then the ledger is empty, and `ratchet promote MODEL@VERSION` begins it. Raises
    ConfigurationError if nothing is lost.
    """
    check_words(by, because)
    found = reconcile(store, tracking_uri, model, look=True)
    _refuse_whole(model, found)
    number = cut_to_whole(store, model)
    if standing(store, model).live is None:
        return None

    def decide(now: Standing) -> Change:
        return by_hand(live_of(now), "hold", by=by, because=f"records after number {number} were lost: {because}")

    record = record_decision(store, model, decide)
    reconcile(store, tracking_uri, model, force=True)
    return record


def _refuse_whole(model: str, found: Reconciled) -> None:
    if found.finding is None or found.finding.name not in _LOSSES:
        raise ConfigurationError(f"the ledger of {model} has lost nothing", remedy="nothing has to be accepted")
