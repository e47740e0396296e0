"""What no rows are taken out beside: documents of another release, and files of days that nothing names.

A change here violates the promise of the project when a removal begins that cannot be carried out to its end.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import STAGES
from ratchet.store.base import Store
from ratchet.store.documents import read_document
from ratchet.store.publishing import read_manifest
from tasks.keeping.copies import DAY_PARTS, is_manifest
from tasks.keeping.files import FoundDay

_THREADS = 8


def refuse_other_releases(store: Store, pipeline: str, parts: Sequence[str] = (*STAGES, *DAY_PARTS)) -> None:
    """Raise OtherRelease for a result or a record of a run that only another release can read.

    Before anything is removed: nobody could say what was made of the rows. parts: kinds of results.
    """
    listed = chain.from_iterable(list(store.list(paths.published(pipeline, part))) for part in parts)
    manifests = [entry.key for entry in listed if is_manifest(entry.key)]
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(partial(_read_manifest, store), manifests):
            pass
        for _ in pool.map(partial(_read_outcome, store), list(_outcomes(store, pipeline))):
            pass


def refuse_unknown(store: Store, found: Sequence[FoundDay]) -> None:
    """Raise ConfigurationError for files with rows of a key that no index and no published result names.

    What is left of such a file could be named by nothing, and the rows of other keys would be lost.
    """
    if found:
        first = found[0].file
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise ConfigurationError(
            f"{store.uri}/{first.entry.key}{more}: it has rows of the key, and no index and no published result names "
            "this file of a day, so nothing was purged",
            remedy=f"run {first.day} again, which publishes the day, or restore its results from a backup; where no "
            "run needs the file, delete it; then run the purge again",
        )


def _outcomes(store: Store, pipeline: str) -> Iterator[str]:
    for entry in list(store.list(paths.runs(pipeline))):
        run_id = entry.key.split("/")[2]
        if entry.key in {paths.outcome(pipeline, run_id, stage) for stage in STAGES}:
            yield entry.key


def _read_manifest(store: Store, key: str) -> None:
    with suppress(CorruptArtifact):
        read_manifest(store, key)


def _read_outcome(store: Store, key: str) -> None:
    with suppress(CorruptArtifact, FileNotFoundError):
        read_document(store, key, Outcome)
