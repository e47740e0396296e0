"""A version's model, loaded as it is scored, before a person may put it into production.

Its files are read by their digests, and its code runs in a process of its own.

A change here violates the promise of the project when a version counts as loaded whose files are not whole, whose model
or scoring code is not the one that its tags name, or that nothing has loaded.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, Unavailable
from ratchet.contracts.refit import maker
from ratchet.store.artifacts import read_bytes
from ratchet.store.base import Store
from ratchet.store.ledger import Record
from ratchet.store.publishing import read_manifest
from ratchet.store.renewal import renew

Load = Callable[[Store, Record], str]
"""Loads the model of a version; its digest. The record is the version's, as if it were the champion.

Raises CorruptArtifact for files that are gone, damaged or not those of the version; ConfigurationError for a model
whose code fails, or a place that cannot load one.
"""


def load(store: Store, record: Record) -> str:
    """See Load. The process is one of this machine, which needs the libraries of the stages."""
    try:
        return _load(store, record)
    except ModuleNotFoundError as error:
        raise _no_library(record, str(error)) from error


def _load(store: Store, record: Record) -> str:
    from ratchet.model.zygote import zygote

    zygote()  # it loads libraries while this process loads its own
    from ratchet.model.files import lay_out
    from ratchet.model.package import unpack
    from ratchet.model.process import ModelError, ModelProcess

    version = f"version {record.version} of {record.model}"
    _keep(store, record)
    with TemporaryDirectory(prefix="ratchet-") as folder:
        place = Path(folder)
        package = unpack(_scoring(store, record), place / "scoring")
        if record.scoring and package.name != record.scoring:
            raise CorruptArtifact(
                f"{version} was evaluated by {package.name}, and its tags name {record.scoring}",
                remedy="restore the tags of the version in MLflow, or promote another version",
            )
        model = lay_out(store, read_manifest(store, maker(record.manifests)).result, place / "model", place)
        try:
            with ModelProcess(package, model, place) as loaded:
                return loaded.digest
        except ModelError as error:
            kind, _, said = str(error).partition(": ")
            if kind == "ModuleNotFoundError":
                raise _no_library(record, said) from error
            raise ConfigurationError(f"{version} cannot be loaded: {error}", remedy="promote another one") from error
        except (MemoryError, OSError) as error:
            raise Unavailable(f"{version} was not loaded: {type(error).__name__}: {error}") from error


def _keep(store: Store, record: Record) -> None:
    """Let no collection that has seen the version before its promotion delete what it is made of."""
    needed = {record.manifests["evaluate"], maker(record.manifests)}
    for key in record.manifests.values():
        try:
            is_kept = renew(store, read_manifest(store, key))
        except CorruptArtifact:
            if key in needed:
                raise
            continue  # nothing that is scored by is in it
        if not is_kept and key in needed:
            raise CorruptArtifact(f"{store.uri}/{key} is gone", remedy="promote another version")


def _scoring(store: Store, record: Record) -> bytes:
    """The package that evaluation scored the version by."""
    outputs = read_manifest(store, record.manifests["evaluate"]).result.outputs
    if "scoring" not in outputs:
        raise CorruptArtifact(
            "the evaluation of this version kept no scoring code", remedy="evaluate its night again with --rebuild"
        )
    return read_bytes(store, outputs["scoring"])


def _no_library(record: Record, said: str) -> ConfigurationError:
    return ConfigurationError(
        f"version {record.version} of {record.model} cannot be loaded here: {said}",
        remedy=f"type `ratchet promote {record.model}@{record.version} --by NAME --because WHY` where stages can run",
    )
