"""What a ledger says now: the champion, whether promotions are held, and which models may not return.

A change here violates the promise of the project when a model that was rolled back can be promoted before a person has
released it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ratchet.store.base import Store
from ratchet.store.ledger import Ban, Record, champion_of, records


@dataclass(frozen=True, kw_only=True)
class BannedModel:
    """A ban that is in force, and the rollback that spoke it."""

    ban: Ban
    by: Record

    @property
    def sentence(self) -> str:
        """Why the model may not be promoted, and what releases it."""
        who = f" by {self.by.started_by}" if self.by.started_by else ""
        return (
            f"version {self.ban.version}, which has this model or its training, was rolled back{who} (record "
            f"{self.by.number}: {self.by.reason}); `ratchet release {self.by.model}@{self.ban.version} --because WHY` "
            "lets it return"
        )


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The state of a ledger. hold: the record that stops every promotion, if one does."""

    model: str
    history: tuple[Record, ...]
    live: Record | None
    hold: Record | None
    banned: tuple[BannedModel, ...]

    @property
    def number(self) -> int:
        """The number of the newest record; 0 if there is none."""
        return len(self.history)

    def ban_of(self, digest: str, recipe: str = "") -> BannedModel | None:
        """The ban on a model, by its digest or by the recipe of its training."""
        for one in self.banned:
            if one.ban.digest == digest or (recipe and one.ban.recipe == recipe):
                return one
        return None

    def obstacle(self, digest: str, recipe: str = "", *, parent: str | None = None) -> str:
        """Why this model may not be promoted now, in a sentence; empty if it may.

        parent: the digest of the model that it began with, which no night makes more of once it was rolled back.
        """
        if self.hold is not None:
            return held(self.hold)
        if banned := self.ban_of(digest, recipe):
            return banned.sentence
        banned = self.ban_of(parent) if parent else None
        return f"it began with a model that may not return: {banned.sentence}" if banned else ""


def standing(store: Store, model: str) -> Standing:
    """Read the ledger of a model. Raises CorruptArtifact if it is not whole."""
    return standing_of(model, records(store, model))


def standing_of(model: str, history: Sequence[Record]) -> Standing:
    """The state after these records."""
    hold: Record | None = None
    banned: list[BannedModel] = []
    for record in history:
        if record.action == "hold" or record.holds:
            hold = record
        elif record.action == "release" and not record.released:
            hold = None
        banned = [one for one in banned if one.ban.digest not in record.released]
        banned += [BannedModel(ban=ban, by=record) for ban in record.bans]
    return Standing(model=model, history=tuple(history), live=champion_of(history), hold=hold, banned=tuple(banned))


def held(hold: Record) -> str:
    """Why nothing is promoted, and what ends it."""
    who = f" by {hold.started_by}" if hold.started_by else ""
    return (
        f"promotions of {hold.model} are held{who} since {hold.recorded:%Y-%m-%d %H:%M} UTC (record {hold.number}: "
        f"{hold.reason}); `ratchet release {hold.model} --because WHY` ends that"
    )
