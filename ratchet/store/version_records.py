"""The records of registered versions in the store, each written once.

There are two exceptions: a purge masks words of the verdict, and a version whose results were collected gets the
record of the run that makes its model again.

A change here violates the promise of the project when a record can change in any other way, or is read although its
bytes have changed.
"""

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.refit import maker
from ratchet.contracts.version_record import VersionRecord
from ratchet.store.base import Entry, Store
from ratchet.store.sealed import seal, unseal

_REMEDY = "restore it from a backup, or take record.json of the version in MLflow"


def keep_record(store: Store, record: VersionRecord) -> bytes:
    """Store the record of a version; the bytes of the one that is stored.

    A version that has one keeps it, unless the files of the model that it names were collected: then only the new
    record names files that are there. Raises CorruptArtifact where the one that it has is damaged.
    """
    key = paths.version_record(record.model, record.version, record.digest)
    while not store.create(key, seal(record)):
        entry = store.head(key)
        known = _read(store, key, record.model, record.version, record.digest)
        if _is_whole(store, known) or store.replace(key, seal(record), expected=entry.etag if entry else None):
            break
    return store.read(key)


def read_record(store: Store, model: str, version: str, digest: str | None = None) -> VersionRecord:
    """The record of a version. digest: of the model; without it, of that number the one that was registered last.

    Raises ConfigurationError where there is none, and CorruptArtifact where it is damaged.
    """
    entries = _in_order(store, model)
    found = [entry.key for entry in entries if _number(entry) == version]
    if digest is not None:
        found = [key for key in found if key == paths.version_record(model, version, digest)]
    if not found:
        known = list(dict.fromkeys(map(_number, entries)))
        raise ConfigurationError(
            f"{store.uri} has no record of {model} version {version}"
            + (f" with the digest {paths.short(digest)}" if digest else ""),
            remedy=f"name one of its recorded versions: {', '.join(known[-10:])}"
            if known
            else "check --store and the name of the model; versions of earlier releases have no record",
        )
    return max((_read(store, key, model, version, digest) for key in found), key=lambda record: record.registered)


def find_record(store: Store, model: str, version: str, digest: str) -> VersionRecord | None:
    """The record of a model by its digest, of this version where it has several; None where there is none.

    A registry that was restored may have given the model another number since. Raises CorruptArtifact where the record
    is damaged.
    """
    entries = _in_order(store, model)
    numbers = map(_number, entries)
    known = [
        number
        for entry, number in zip(entries, numbers, strict=True)
        if entry.key == paths.version_record(model, number, digest)
    ]
    if not known:
        return None
    return read_record(store, model, version if version in known else known[-1], digest)


def versions(store: Store, model: str) -> list[str]:
    """The versions of a model that have a record, in the order of their numbers."""
    entries = _in_order(store, model)
    return list(dict.fromkeys(map(_number, entries)))


def versions_of(store: Store, pipeline: str) -> list[VersionRecord]:
    """The records of a pipeline, of all models that it has trained, each model's newest version first."""
    entries = list(store.list(paths.version_records()))
    models = dict.fromkeys(entry.key.split("/")[1] for entry in entries)
    found = (read_record(store, model, version) for model in models for version in reversed(versions(store, model)))
    return [record for record in found if record.pipeline == pipeline]


def _read(store: Store, key: str, model: str, version: str, digest: str | None) -> VersionRecord:
    where = f"{store.uri}/{key}"
    record = unseal(store.read(key), VersionRecord, where=where, remedy=_REMEDY)
    if (record.model, record.version) != (model, version) or digest not in {None, record.digest}:
        other = f"{record.model} version {record.version} ({paths.short(record.digest)})"
        raise CorruptArtifact(f"{where} is the record of {other}", remedy=_REMEDY)
    return record


def _is_whole(store: Store, record: VersionRecord) -> bool:
    """Whether the results are there that the version is loaded from. In a ledger, or under the alias, they stay."""
    manifests = {str(stage): one.manifest for stage, one in record.stages.items()}
    needed = {maker(manifests), manifests["evaluate"]} if manifests else set()
    return all(store.head(key) is not None for key in needed)


def _in_order(store: Store, model: str) -> list[Entry]:
    """By number: 9 before 10. When a file was written says less, as a purge and a copy of the store write it again."""
    return sorted(store.list(paths.version_records(model)), key=lambda entry: (len(_number(entry)), _number(entry)))


def _number(entry: Entry) -> str:
    return paths.recorded_version(entry.key)
