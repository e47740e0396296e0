"""`hold`: no promotion until it is released."""

from ratchet.contracts.errors import ConfigurationError
from ratchet.production.by_hand import by_hand, live_of, record_decision
from ratchet.production.standing import Standing, held
from ratchet.store.base import Store
from ratchet.store.ledger import Change, Record


def hold(store: Store, model: str, *, by: str, because: str) -> Record:
    """Record that nothing is promoted. Runs train and judge as before; register withholds what they find better.

    Raises ConfigurationError if promotions are held already, or if no model is in production.
    """

    def decide(now: Standing) -> Change:
        if now.hold is not None:
            raise ConfigurationError(held(now.hold), remedy="nothing has to be done")
        return by_hand(live_of(now), "hold", by=by, because=because)

    return record_decision(store, model, decide)
