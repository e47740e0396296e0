"""What cannot be done again because rows were removed: which versions were made from them, and why."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import date

from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.removal import LostVersion
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.version_record import VersionRecord
from ratchet.store.base import Store
from ratchet.store.ledger import champion
from ratchet.store.removals import removals
from ratchet.store.version_records import versions_of


def learnt_days(record: VersionRecord) -> set[date]:
    """The days that a version has learnt from, itself or by the training that a refit repeats."""
    trainings = [one for one in (record.trained, record.refit) if one is not None]
    return {day for one in trainings for day in (*one.split.train, *one.split.valid)}


def lost_versions(store: Store, pipeline: str, files: Collection[str]) -> list[LostVersion]:
    """The versions whose snapshot has one of these files, by their digests: champions first, then the newest.

    Those of all models that the pipeline has registered; register.model may have changed.
    """
    found, live = [], set()
    for record in versions_of(store, pipeline):
        days = tuple(day.day for day in record.snapshot.days if day.file.sha256 in files)
        if days:
            trained = not learnt_days(record).isdisjoint(days)
            model, version = record.model, record.version
            found.append(LostVersion(model=model, version=version, digest=record.digest, trained=trained, days=days))
    for model in {one.model for one in found}:
        with suppress(CorruptArtifact):
            if (one := champion(store, model)) is not None:
                live.add(one.model_digest)
    return sorted(found, key=lambda one: one.digest not in live)


def why_lost(store: Store, record: VersionRecord) -> Iterator[str]:
    """Why a version cannot be built again, a line for each removal."""
    for line in why_gone(store, record.pipeline, record.snapshot):
        yield f"no longer reproducible: {line}"


def why_gone(store: Store, pipeline: str, snapshot: Snapshot) -> Iterator[str]:
    """Which rows of a snapshot were removed, a line for each removal."""
    for removal in removals(store, pipeline):
        gone = {one.before for one in removal.days}
        days = [day.day for day in snapshot.days if day.file.sha256 in gone and store.head(day.file.key) is None]
        if days:
            more = f" and {len(days) - 1} more days" if days[1:] else ""
            yield f"rows of {days[0]}{more} were {removal.line}"
