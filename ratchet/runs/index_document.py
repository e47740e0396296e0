"""The document with a line for each date of a pipeline: read, written, and made again from the runs.

A change here violates the promise of the project when the line of one writer is lost to another, or when a run fails
since the document could not be written.
"""

import logging
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, OtherRelease, RatchetError
from ratchet.contracts.run_index import FORM, IndexedRun, RunIndex
from ratchet.runs.indexed_ledger import ledger_of
from ratchet.runs.run_lines import line_now, line_of_mark
from ratchet.store.base import Entry, Store
from ratchet.store.documents import read_document, write_shared

READERS = 8
"""How many runs are read at once."""
_log = logging.getLogger(__name__)


def known_index(store: Store, pipeline: str) -> RunIndex | None:
    """The document; None where there is none that this release can read: what it says is on record too."""
    try:
        return read_index_file(store, pipeline)
    except OtherRelease:
        return None


def read_index_file(store: Store, pipeline: str) -> RunIndex | None:
    """The document; None where it is lost, damaged or of an older form. Raises OtherRelease."""
    try:
        index = read_document(store, paths.run_index(pipeline), RunIndex)
    except (FileNotFoundError, CorruptArtifact):
        return None
    return index if index.form >= FORM else None


def write_index(store: Store, pipeline: str, change: Callable[[RunIndex], RunIndex]) -> None:
    """Change the document, whoever else does. A run does not fail of it: who reads finds what is missing."""
    key = paths.run_index(pipeline)

    def make(entry: Entry | None) -> bytes | None:
        try:
            before = read_index_file(store, pipeline) if entry else None
        except OtherRelease as error:
            # A line that is left out there would never be shown. Without a document, that release makes it again.
            _log.warning("the index of the runs of %s is deleted, to be made again: %s", pipeline, error)
            store.delete(key, expected=entry.etag if entry else None)
            return None
        changed = change(before or rebuilt(store, pipeline))
        after = changed.model_copy(update={"form": FORM})  # a newer release does not take our lines for its own
        return after.model_dump_json(exclude_defaults=True).encode() if after != before else None

    try:
        if not write_shared(store, key, make):
            _log.warning("the index of the runs of %s is not written: others keep writing it", pipeline)
    except RatchetError as error:
        _log.warning("the index of the runs of %s is not written: %s", pipeline, error)


def rebuilt(store: Store, pipeline: str) -> RunIndex:
    """The document, from the plans and the outcomes of all runs. Reads each plan."""
    marks = list(store.list(paths.nights(pipeline)))
    with ThreadPoolExecutor(READERS) as pool:
        runs = [run for run in pool.map(lambda mark: line_of_mark(store, pipeline, mark), marks) if run is not None]
        newest = RunIndex(form=FORM).with_runs(*sorted(runs, key=lambda run: run.created))
        found = newest.with_runs(*pool.map(lambda run: line_now(store, pipeline, run), newest.runs))
    models = {run.model for run in found.runs} - {""}
    return found.model_copy(update={"ledgers": {model: ledger_of(store, model, None) for model in sorted(models)}})


def with_ledgers(store: Store, index: RunIndex, *lines: IndexedRun, models: Collection[str] = ()) -> RunIndex:
    """The index with these lines, and what the ledgers of their models, and of further ones, say now."""
    named = {*models, *(run.model for run in lines)} - {""}
    ledgers = {model: ledger_of(store, model, index.ledgers.get(model)) for model in sorted(named)}
    return index.with_runs(*lines).model_copy(update={"ledgers": {**index.ledgers, **ledgers}})
