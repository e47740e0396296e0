"""`rollback`: an earlier champion back in production, and no return of those that it replaces.

A change here violates the promise of the project when a model that is taken out of production is not banned.
"""

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.production.by_hand import by_hand, live_of, record_decision
from ratchet.production.recipe import recipe
from ratchet.production.rollback_target import last_different, named
from ratchet.production.standing import Standing
from ratchet.store.base import Store
from ratchet.store.ledger import Ban, Change, Record
from ratchet.store.publishing import read_manifest


def rollback(
    store: Store,
    model: str,
    *,
    version: str | None = None,
    by: str,
    because: str,
    tracking_uri: str | None = None,
) -> Record:
    """Record that an earlier champion is in production again. version: of it; else the last different one.

    Every model that was in production since then is banned, with the recipe of its training, until a person releases
    it. No target is a model that is banned itself, or that the registry does not have (None: the one beside the store);
    where the registry does not answer, that is not known. Raises ConfigurationError, and records nothing, where there
    is no such champion, and where production moves meanwhile: the model that the person wants to leave is not in
    production any more.
    """
    seen: list[Record] = []

    def decide(now: Standing) -> Change:
        live = live_of(now)
        _refuse_moved(seen, live)
        if version is None:
            target = last_different(store, tracking_uri, now, live)
        else:
            target = named(store, tracking_uri, now, live, version)
        bans = _bans(store, now, target)
        return by_hand(target, "rollback", by=by, because=because, bans=bans)

    return record_decision(store, model, decide)


def _refuse_moved(seen: list[Record], live: Record) -> None:
    """Raise ConfigurationError if production has moved since the champion was seen first. seen: it, once it was."""
    if not seen:
        seen.append(live)
    if live.number != seen[0].number:
        raise ConfigurationError(
            f"production of {live.model} has moved meanwhile, from version {seen[0].version} to {live.version} "
            f"(record {live.number}: {live.action}); nothing was rolled back",
            remedy=f"see `ratchet history {live.model}`, and roll back again if version {live.version} is wrong, too",
        )


def _bans(store: Store, now: Standing, target: Record) -> tuple[Ban, ...]:
    """Bans of all that held office since the target did, but of the target's own model."""
    found: dict[str, Ban] = {}
    for record in now.history[target.number :]:
        if record.moves_production and record.model_digest != target.model_digest and not _banned(now, record):
            ban = Ban(version=record.version, digest=record.model_digest, recipe=_recipe(store, record))
            found[record.model_digest] = ban
    return tuple(found.values())


def _banned(now: Standing, record: Record) -> bool:
    """Whether its very digest is; a rebuild with the recipe of a banned one gets a ban of its own."""
    return now.ban_of(record.model_digest) is not None


def _recipe(store: Store, record: Record) -> str:
    """The recipe of a record's model; of a record of before, from its training, if that is still there.

    Raises Unavailable: a ban without the recipe would let a rebuild return.
    """
    if record.recipe or "train" not in record.manifests:
        return record.recipe
    try:
        return recipe(read_manifest(store, record.manifests["train"]).result.parts)
    except CorruptArtifact:
        return ""
