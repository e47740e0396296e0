"""What production names in the whole store: the ledgers, and the versions that are in them or that an alias names.

A change here violates the promise of the project when a file that the ledger names, for a rollback too, is in none of
the roots.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ratchet.collection.named_rows import NamedRows
from ratchet.contracts import paths
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.version_record import VersionRecord
from ratchet.store.base import Store
from ratchet.store.ledger import records
from ratchet.store.sealed import unseal
from ratchet.tracking.registry import Registry
from ratchet.tracking.use_registry import use_registry


@dataclass
class Roots:
    """files: keys of manifests and files, each with what names it. runs: (pipeline, run) that a ledger names.

    rows: of all versions. unread: why a model's ledger, its records or its registry could not be read, by model.
    """

    files: dict[str, str] = field(default_factory=dict)
    runs: set[tuple[str, str]] = field(default_factory=set)
    bundles: set[str] = field(default_factory=set)
    images: set[str] = field(default_factory=set)
    rows: NamedRows = field(default_factory=NamedRows)
    unread: dict[str, RatchetError] = field(default_factory=dict)


def read_roots(store: Store, tracking_uri: str | None) -> Roots:
    """The roots of all models of a store."""
    found = Roots()
    versions = _by_model(store, paths.version_records())
    ledgers = _by_model(store, paths.ledger())
    for model in sorted({*versions, *ledgers}):
        try:
            _of_model(store, tracking_uri, model, versions.get(model, []), found)
        except RatchetError as error:
            found.unread[model] = error
    for model, chain in sorted({tuple(entry.key.split("/")[1:3]) for entry in store.list(paths.shadow())}):
        try:
            _of_chain(store, model, chain, found)
        except RatchetError as error:
            found.unread[model] = error
    return found


def _of_chain(store: Store, model: str, chain: str, found: Roots) -> None:
    """The winners of a backfill: its next date is measured against the last of them, however long ago that one was."""
    for record in records(store, model, place=paths.shadow(model, chain)):
        for key in record.manifests.values():
            found.files.setdefault(key, f"a backfill of {model} has it as a winner")


def _by_model(store: Store, place: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in store.list(place):
        found.setdefault(entry.key.split("/")[1], []).append(entry.key)
    return found


def _of_model(store: Store, tracking_uri: str | None, model: str, keys: list[str], found: Roots) -> None:
    history = records(store, model)
    for record in history:
        found.runs.add((record.pipeline, record.run_id))
        for key in record.manifests.values():
            found.files.setdefault(key, f"the ledger of {model} names it")
    in_office = {record.model_digest for record in history} | {record.measured for record in history}
    with TemporaryDirectory(prefix="ratchet-") as folder:
        alias = use_registry(store, tracking_uri, Path(folder), partial(_champion, model=model))
    for key in keys:
        record_of = unseal(
            store.read(key), VersionRecord, where=f"{store.uri}/{key}", remedy="restore it from a backup"
        )
        found.bundles.add(record_of.bundle.key)
        found.images.add(record_of.pins.image)
        found.rows.add(record_of.snapshot, f"version {record_of.version} of {model}")
        if record_of.digest in {*in_office, alias}:
            why = f"version {record_of.version} of {model}, which was in production or has the alias"
            for named in _named(record_of):
                found.files.setdefault(named, why)


def _champion(registry: Registry, *, model: str) -> str:
    """The digest of the version that the alias names; empty where there is none."""
    version = registry.champion(model)
    return version.digest if version is not None else ""


def _named(record: VersionRecord) -> Iterator[str]:
    """The keys that a version's record names."""
    yield from (one.manifest for one in record.stages.values())
    yield from (one.key for one in (*record.weights.values(), *record.traces.values()))
    if record.scores is not None:
        yield record.scores.key
    if (parent := record.parent) is not None:
        yield from (parent.weights.key, parent.description.key)
