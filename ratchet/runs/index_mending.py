"""What the watch mends in the documents with the lines of runs: those that are lost, and lines that are old or missing.

A change here violates the promise of the project when a line is written over one that came after it.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime

from ratchet.contracts import paths
from ratchet.contracts.errors import OtherRelease
from ratchet.contracts.run_index import IndexedRun, RunIndex
from ratchet.runs.index_document import READERS, known_index, read_index_file, with_ledgers, write_index
from ratchet.runs.run_index import UNDER_WAY
from ratchet.runs.run_lines import line_of_mark, noted_line, renewed_line
from ratchet.runs.standstill import only_removal
from ratchet.store.base import Entry, Store

_PLANNED_NS = 86_400 * 10**9
"""A mark that is older than a day, and has no plan, is of a run whose planning was given up."""


def index_etags(store: Store) -> dict[str, str]:
    """The pipelines that have a document, also those that are retired, each with its etag. One request."""
    return {paths.last(entry.key).removesuffix(".json"): entry.etag for entry in store.list(paths.run_index())}


def renew_index(store: Store, pipeline: str) -> bool:
    """Write the document of a pipeline that has runs, if it is lost, damaged or of an older form. Whether it was.

    Not while rows are removed, which changes the records that it repeats: raises RowsHeld then.
    """
    with suppress(OtherRelease):  # that release reads it
        if (
            read_index_file(store, pipeline) is None
            and next(iter(store.list(paths.nights(pipeline))), None) is not None
        ):
            with only_removal(store, pipeline, "the watch", wait_s=0.0, outlives=True):
                write_index(store, pipeline, lambda index: index)
            return True
    return False


def renew_lines(store: Store, pipeline: str) -> bool:
    """Write the lines of runs under way that are not from their records as these are now. Whether any is under way.

    A line that somebody writes meanwhile stays: it is newer. That of a run that was killed long ago is written for
    good: a pipeline that has no more runs would else be looked at for ever.
    """
    index = known_index(store, pipeline)
    under_way = [run for run in index.runs if not run.ended] if index is not None else []
    if not under_way:
        return False

    until = datetime.now(UTC) - UNDER_WAY

    def renewed(run: IndexedRun) -> IndexedRun:
        line = renewed_line(store, pipeline, run)
        return run.model_copy(update={"ended": True}) if line == run and run.created < until else line

    _replace_lines(store, pipeline, under_way, renewed)
    return True


def check_lines(store: Store, pipeline: str, run_ids: Collection[str]) -> None:
    """Write the lines of these runs, which have ended, as their records are: the store may have refused the last ones.

    A line that somebody writes meanwhile stays: it is newer.
    """
    index = known_index(store, pipeline)
    ended = [run for run in index.runs if run.ended and run.run_id in run_ids] if index is not None else []
    _replace_lines(store, pipeline, ended, lambda run: noted_line(store, pipeline, run))


def add_lines(store: Store, pipeline: str, looked_at: set[Entry], most: int) -> int:
    """Write the lines that runs lack, as where the store refused them; the newest first. How many were looked at.

    And what ledgers say by now, where that is other than the document knows, as after a restore.

    looked_at: marks of runs that need no line, as a newer run has it; gets those that are found. most: how many others
    to look at. Writes nothing over a line that is there, and nothing where there is no document.
    """
    marks = {*store.list(paths.nights(pipeline))}
    looked_at &= marks
    index = known_index(store, pipeline)
    if index is None:
        return 0
    there = {run.run_id for run in index.runs}
    others = (mark for mark in marks - looked_at if paths.last(mark.key) not in there)
    newest = sorted(others, key=lambda mark: mark.modified_ns)[-most:]
    with ThreadPoolExecutor(READERS) as pool:
        runs = list(pool.map(lambda mark: line_of_mark(store, pipeline, mark), newest))
        lacking = [run for run in runs if run is not None and run in index.with_runs(run).runs]
        lines = list(pool.map(lambda run: noted_line(store, pipeline, run), lacking))
    before = time.time_ns() - _PLANNED_NS
    for mark, run in zip(newest, runs, strict=True):
        if run not in lacking and (run is not None or mark.modified_ns < before):
            looked_at.add(mark)
    if lines or with_ledgers(store, index, models=index.ledgers) != index:

        def change(index: RunIndex) -> RunIndex:
            return with_ledgers(store, index, *_others(index, lines), models=index.ledgers)

        write_index(store, pipeline, change)
    return len(newest)


def _replace_lines(
    store: Store, pipeline: str, before: Sequence[IndexedRun], renewed: Callable[[IndexedRun], IndexedRun]
) -> None:
    """Write those that are others by now, in the place of these lines alone."""
    with ThreadPoolExecutor(READERS) as pool:
        found = {run: line for run, line in zip(before, pool.map(renewed, before), strict=True) if line != run}
    if found:
        write_index(
            store,
            pipeline,
            lambda index: with_ledgers(store, index, *(found[run] for run in index.runs if run in found)),
        )


def _others(index: RunIndex, lines: Iterable[IndexedRun]) -> list[IndexedRun]:
    """Those of runs that have no line."""
    there = {run.run_id for run in index.runs}
    return [run for run in lines if run.run_id not in there]
