"""`release`: promotions go on after a hold, or one version may return that was rolled back."""

from ratchet.contracts.errors import ConfigurationError
from ratchet.production.by_hand import by_hand, live_of, record_decision
from ratchet.production.standing import Standing
from ratchet.store.base import Store
from ratchet.store.ledger import Change, Record


def release(store: Store, model: str, *, version: str | None = None, by: str, because: str) -> Record:
    """Record the end of a hold; with `version`, the end of the ban on that version, and of nothing else.

    A registry that was restored gives a number again: then it is the model of that number that was banned last. It
    promotes nothing. Raises ConfigurationError where there is nothing to release.
    """

    def decide(now: Standing) -> Change:
        live = live_of(now)
        if version is None:
            if now.hold is None:
                banned = "" if not now.banned else f"; to lift a ban, name the version: {_versions(now)}"
                raise ConfigurationError(
                    f"promotions of {model} are not held", remedy=f"nothing has to be done{banned}"
                )
            return by_hand(live, "release", by=by, because=because)
        digests = [one.ban.digest for one in now.banned if one.ban.version == version]
        if not digests:
            raise ConfigurationError(f"version {version} of {model} is not banned", remedy=_what_is_banned(now))
        return by_hand(live, "release", by=by, because=because, released=(digests[-1],))

    return record_decision(store, model, decide)


def _what_is_banned(now: Standing) -> str:
    return f"versions that are banned: {_versions(now)}" if now.banned else "nothing has to be done: none is banned"


def _versions(now: Standing) -> str:
    return ", ".join(f"{now.model}@{one.ban.version}" for one in now.banned)
