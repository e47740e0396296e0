"""All nights of a pipeline in a few requests, however many runs it has: from a document with a line for each date.

A run writes its line when it is planned and at the end of each stage, with the records that the line is from. Of a run
that has not ended the reader lists the records: where they are others, it reads them, and so sees what a crash left
out. Two weeks later the next plan writes the line as the records are then. A document that is lost, damaged or of an
older form is made again from the runs: by the next run, or by the watch, since a reader writes nothing.

A change here violates the promise of the project when a page shows another verdict of a run than is on record, or a
model as the one in production that the ledger does not name.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, OtherRelease, RatchetError
from ratchet.contracts.judgements import Interval
from ratchet.contracts.request import RunKind, RunPlan
from ratchet.contracts.run_index import FORM, IndexedLedger, IndexedRun, RunIndex, Standing, planned
from ratchet.runs.indexed_ledger import ledger_of
from ratchet.runs.newest import newest_first
from ratchet.runs.run_lines import line_now, line_of_mark, line_on_record, noted_line, records_now
from ratchet.runs.standstill import only_removal
from ratchet.store.base import Entry, Store
from ratchet.store.documents import read_document

_READERS = 8
_TRIES = 10
_WAIT_S = 0.05
_UNDER_WAY = timedelta(days=14)
"""For how long a run may be under way. One that has not ended then was killed, and its line is written for good."""
_SETTLED_AT_ONCE = 8
"""Lines of killed runs that a plan writes, so that it costs little whatever was killed."""
_PLANNED_NS = 86_400 * 10**9
"""A mark that is older than a day, and has no plan, is of a run whose planning was given up."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """The run of a date, in one line. gain: relative, of the pipeline's metric. version: registered, if any.

    would_promote: whether the verdict is promote, even if the run was not allowed to move production. promoted: whether
    the ledger has a promotion of its model. live: whether its model is in production now. against: what it was measured
    against; empty for a constant scorer. chain: of a backfill that is judged along its own winners. asks: whether it
    waits for a person to approve its candidate.
    """

    day: date
    run_id: str
    kind: RunKind
    standing: Standing
    gain: Interval | None
    would_promote: bool
    promoted: bool
    version: str
    cause: str
    cached: bool
    live: bool = False
    against: str = ""
    chain: str = ""
    asks: bool = False


def nights(store: Store, pipeline: str, kind: RunKind | None = None) -> list[RunLine]:
    """The newest run of each date, or the newest of a kind, oldest date first. Changes nothing in the store."""
    index = read_index(store, pipeline)
    newest: dict[date, IndexedRun] = {}
    for run in index.runs:
        before = newest.get(run.day)
        if kind in {None, run.kind} and (before is None or before.created <= run.created):
            newest[run.day] = run
    chosen = [newest[day] for day in sorted(newest)]
    models = {run.model for run in chosen} - {""}
    ledgers = {model: ledger_of(store, model, index.ledgers.get(model)) for model in models}
    return [_line(run, ledgers.get(run.model, IndexedLedger())) for run in chosen]


def read_index(store: Store, pipeline: str) -> RunIndex:
    """The document, with the runs that have not ended as their records are now. Changes nothing in the store."""
    return _followed(store, pipeline, _known(store, pipeline) or rebuilt(store, pipeline))


def note_plan(store: Store, plan: RunPlan) -> None:
    """Write the line of a run that was planned, and for good those of a few runs that were killed long ago.

    Does nothing for a run that has its line: it may say more.
    """
    settled: dict[str, IndexedRun] = {}

    def change(index: RunIndex) -> RunIndex:
        if any(run.run_id == plan.run_id for run in index.runs):
            return index
        until = datetime.now(UTC) - _UNDER_WAY
        killed = [run for run in index.runs if not run.ended and run.created < until]
        for run in killed[:_SETTLED_AT_ONCE]:
            if run.run_id not in settled:
                with suppress(OtherRelease):  # that release may go on with it
                    settled[run.run_id] = line_on_record(store, plan.spec.name, run).model_copy(update={"ended": True})
        return index.with_runs(*settled.values(), noted_line(store, plan.spec.name, planned(plan)))

    _write(store, plan.spec.name, change)


def note_again(store: Store, plan: RunPlan) -> None:
    """Say that a stage which is on record is about to be recorded again: the line is believed until it is.

    A run that has no line gets one, so that nobody writes that of its records as they were.
    """

    def change(index: RunIndex) -> RunIndex:
        ours = next((run for run in index.runs if run.run_id == plan.run_id), planned(plan))
        return index.with_runs(ours.model_copy(update={"ended": False}))

    _write(store, plan.spec.name, change)


def note_end(store: Store, plan: RunPlan) -> None:
    """Write the line of a run of which a stage has ended, and what the ledger says of its model."""
    run = noted_line(store, plan.spec.name, planned(plan))
    _write(store, plan.spec.name, lambda index: _with_ledgers(store, index, run))


def add_lines(store: Store, pipeline: str, looked_at: set[Entry], most: int) -> int:
    """Write the lines that runs lack, as where the store refused them; the newest first. How many were looked at.

    looked_at: marks of runs that need no line, as a newer run has it; gets those that are found. most: how many others
    to look at. Writes nothing over a line that is there, and nothing where there is no document.
    """
    marks = {*store.list(paths.nights(pipeline))}
    looked_at &= marks
    index = _known(store, pipeline)
    if index is None:
        return 0
    there = {run.run_id for run in index.runs}
    others = (mark for mark in marks - looked_at if paths.last(mark.key) not in there)
    newest = sorted(others, key=lambda mark: mark.modified_ns)[-most:]
    with ThreadPoolExecutor(_READERS) as pool:
        runs = list(pool.map(lambda mark: line_of_mark(store, pipeline, mark), newest))
        lacking = [run for run in runs if run is not None and run in index.with_runs(run).runs]
        lines = list(pool.map(lambda run: line_now(store, pipeline, run), lacking))
    before = time.time_ns() - _PLANNED_NS
    for mark, run in zip(newest, runs, strict=True):
        if run not in lacking and (run is not None or mark.modified_ns < before):
            looked_at.add(mark)
    if lines:
        _write(store, pipeline, lambda index: _with_ledgers(store, index, *_others(index, lines)))
    return len(newest)


def newest_runs(store: Store, pipeline: str) -> Iterator[IndexedRun]:
    """The runs that have a plan, the one that was planned last first. What else the lines say may be old.

    By the plans, not by the times of files. Reads the plans of those runs alone that have no line, as far as they may
    be the newest.
    """
    marks = {paths.last(mark.key): mark for mark in store.list(paths.nights(pipeline))}
    index = _known(store, pipeline) or RunIndex()
    known = [run for run in index.runs if marks.pop(run.run_id, None)]
    return newest_first(
        marks.values(), lambda mark: line_of_mark(store, pipeline, mark), lambda run: run.created, known
    )


def newest_ids(store: Store, pipeline: str, most: int) -> list[str]:
    """The ids of the newest runs, the newest last."""
    return [run.run_id for run in islice(newest_runs(store, pipeline), most)][::-1]


def index_etags(store: Store) -> dict[str, str]:
    """The pipelines that have a document, also those that are retired, each with its etag. One request."""
    return {paths.last(entry.key).removesuffix(".json"): entry.etag for entry in store.list(paths.run_index())}


def renew_index(store: Store, pipeline: str) -> bool:
    """Write the document of a pipeline that has runs, if it is lost, damaged or of an older form. Whether it was.

    Not while rows are removed, which changes the records that it repeats: raises RowsHeld then.
    """
    with suppress(OtherRelease):  # that release reads it
        if _read(store, pipeline) is None and next(iter(store.list(paths.nights(pipeline))), None) is not None:
            with only_removal(store, pipeline, "the watch", wait_s=0.0, outlives=True):
                _write(store, pipeline, lambda index: index)
            return True
    return False


def rebuilt(store: Store, pipeline: str) -> RunIndex:
    """The document, from the plans and the outcomes of all runs. Reads each plan."""
    marks = list(store.list(paths.nights(pipeline)))
    with ThreadPoolExecutor(_READERS) as pool:
        runs = [run for run in pool.map(lambda mark: line_of_mark(store, pipeline, mark), marks) if run is not None]
        newest = RunIndex(form=FORM).with_runs(*sorted(runs, key=lambda run: run.created))
        found = newest.with_runs(*pool.map(lambda run: line_now(store, pipeline, run), newest.runs))
    models = {run.model for run in found.runs} - {""}
    return found.model_copy(update={"ledgers": {model: ledger_of(store, model, None) for model in sorted(models)}})


def _others(index: RunIndex, lines: Iterable[IndexedRun]) -> list[IndexedRun]:
    """Those of runs that have no line."""
    there = {run.run_id for run in index.runs}
    return [run for run in lines if run.run_id not in there]


def _with_ledgers(store: Store, index: RunIndex, *lines: IndexedRun) -> RunIndex:
    """The index with these lines, and what the ledgers of their models say now."""
    models = {run.model for run in lines} - {""}
    ledgers = {model: ledger_of(store, model, index.ledgers.get(model)) for model in sorted(models)}
    return index.with_runs(*lines).model_copy(update={"ledgers": {**index.ledgers, **ledgers}})


def _followed(store: Store, pipeline: str, index: RunIndex) -> RunIndex:
    """The index with the runs that have not ended as their records are now: a request for each that has its line."""
    open_runs = [run for run in index.runs if not run.ended]
    if not open_runs:
        return index
    with ThreadPoolExecutor(_READERS) as pool:
        return index.with_runs(*pool.map(lambda run: _line_of_open(store, pipeline, run), open_runs))


def _line_of_open(store: Store, pipeline: str, run: IndexedRun) -> IndexedRun:
    if run.noted and run.noted == records_now(store, pipeline, run.run_id):
        return run
    return line_now(store, pipeline, run)


def _known(store: Store, pipeline: str) -> RunIndex | None:
    """The document; None where there is none that this release can read: what it says is on record too."""
    try:
        return _read(store, pipeline)
    except OtherRelease:
        return None


def _read(store: Store, pipeline: str) -> RunIndex | None:
    try:
        index = read_document(store, paths.run_index(pipeline), RunIndex)
    except (FileNotFoundError, CorruptArtifact):
        return None
    return index if index.form >= FORM else None


def _write(store: Store, pipeline: str, change: Callable[[RunIndex], RunIndex]) -> None:
    """Change the document, whoever else does. A run does not fail of it: who reads finds what is missing."""
    key = paths.run_index(pipeline)
    try:
        for attempt in range(_TRIES):
            entry = store.head(key)
            try:
                before = _read(store, pipeline) if entry else None
            except OtherRelease as error:
                # A line that is left out there would never be shown. Without a document, that release makes it again.
                _log.warning("the index of the runs of %s is deleted, to be made again: %s", pipeline, error)
                store.delete(key, expected=entry.etag if entry else None)
                return
            changed = change(before or rebuilt(store, pipeline))
            after = changed.model_copy(update={"form": FORM})  # a newer release does not take our lines for its own
            if after == before or store.replace(
                key, after.model_dump_json(exclude_defaults=True).encode(), expected=entry.etag if entry else None
            ):
                return
            time.sleep(random.uniform(0, _WAIT_S * 2**attempt))
        _log.warning("the index of the runs of %s is not written: others keep writing it", pipeline)
    except RatchetError as error:
        _log.warning("the index of the runs of %s is not written: %s", pipeline, error)


def _line(run: IndexedRun, ledger: IndexedLedger) -> RunLine:
    return RunLine(
        **run.model_dump(include={"day", "run_id", "kind", "standing", "would_promote", "version", "cause", "cached"}),
        asks=run.asks,
        gain=run.gain,
        against=run.against,
        chain=run.chain,
        promoted=run.digest in ledger.promoted,
        live=run.digest != "" and run.digest == ledger.live,
    )
