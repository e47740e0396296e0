"""All nights of a pipeline in a few requests, however many runs it has: from a document with a line for each date.

A run writes its line when it is planned and at the end of each stage, with the records that the line is from. Before
a stage that is on record is recorded again, its line has no verdict. So a crash between a record and the line leaves
the run as it was before, and no verdict that is no longer on record. Who follows runs under way lists their records,
and reads those that are others by now; a page believes the document, and the watch writes what a crash has left out,
see `index_mending`. Two weeks later the next plan writes the line as the records are then. A document that is lost,
damaged or of an older form is made again from the runs: by the next run, or by the watch, since a reader writes
nothing.

A change here violates the promise of the project when a page shows another verdict of a run than is on record, or a
model as the one in production that the ledger does not name.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice

from ratchet.contracts import paths
from ratchet.contracts.errors import OtherRelease, RatchetError
from ratchet.contracts.judgements import Interval
from ratchet.contracts.request import RunKind, RunPlan
from ratchet.contracts.run_index import IndexedLedger, IndexedRun, RunIndex, Standing, planned
from ratchet.runs.index_document import READERS, known_index, rebuilt, with_ledgers, write_index
from ratchet.runs.indexed_ledger import ledger_of
from ratchet.runs.newest import newest_first
from ratchet.runs.run_lines import AGAIN, is_as_recorded, line_now, line_of_mark, line_on_record, noted_line
from ratchet.store.base import Store
from ratchet.store.ledger import Record

UNDER_WAY = timedelta(days=14)
"""For how long a run may be under way. One that has not ended then was killed, and its line is written for good."""
_SETTLED_AT_ONCE = 8
"""Lines of killed runs that a plan writes, so that it costs little whatever was killed."""
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


def nights(store: Store, pipeline: str, kind: RunKind | None = None, *, follow: bool = True) -> list[RunLine]:
    """The newest run of each date, or the newest of a kind, oldest date first. Changes nothing in the store.

    follow: as of `read_index`. Without it, it takes a request for the document and one for the ledger of each model,
    and one for each record that is newer there than the document.
    """
    index = read_index(store, pipeline, follow=follow)
    newest: dict[date, IndexedRun] = {}
    for run in index.runs:
        before = newest.get(run.day)
        if kind in {None, run.kind} and (before is None or before.created <= run.created):
            newest[run.day] = run
    chosen = [newest[day] for day in sorted(newest)]
    models = {run.model for run in chosen} - {""}
    ledgers = {model: ledger_of(store, model, index.ledgers.get(model)) for model in models}
    return [_line(run, ledgers.get(run.model, IndexedLedger())) for run in chosen]


def read_index(store: Store, pipeline: str, *, follow: bool = True) -> RunIndex:
    """The document. Changes nothing in the store.

    follow: with the runs that have not ended as their records are now: a request for each that has its line. Without
    it, what a crash has left out is missing until the watch has written it.
    """
    index = known_index(store, pipeline)
    if index is None:
        return rebuilt(store, pipeline)
    under_way = [run for run in index.runs if not run.ended]
    if not follow or not under_way:
        return index

    def now(run: IndexedRun) -> IndexedRun:
        return run if is_as_recorded(store, pipeline, run) else line_now(store, pipeline, run)

    with ThreadPoolExecutor(READERS) as pool:
        return index.with_runs(*pool.map(now, under_way))


def note_plan(store: Store, plan: RunPlan) -> None:
    """Write the line of a run that was planned, and for good those of a few runs that were killed long ago.

    Does nothing for a run that has its line: it may say more.
    """
    settled: dict[str, IndexedRun] = {}

    def change(index: RunIndex) -> RunIndex:
        if any(run.run_id == plan.run_id for run in index.runs):
            return index
        until = datetime.now(UTC) - UNDER_WAY
        killed = [run for run in index.runs if not run.ended and run.created < until]
        for run in killed[:_SETTLED_AT_ONCE]:
            if run.run_id not in settled:
                with suppress(OtherRelease):  # that release may go on with it
                    settled[run.run_id] = line_on_record(store, plan.spec.name, run).model_copy(update={"ended": True})
        lines = (*settled.values(), noted_line(store, plan.spec.name, planned(plan)))
        return with_ledgers(store, index, *lines, models=index.ledgers)  # another pipeline may have changed them

    write_index(store, plan.spec.name, change)


def note_again(store: Store, plan: RunPlan) -> None:
    """Say that a stage which is on record is about to be recorded again: the line has no verdict until it is.

    A run that has no line gets one, so that nobody writes that of its records as they were.
    """
    line = planned(plan).model_copy(update={"noted": AGAIN})
    write_index(store, plan.spec.name, lambda index: index.with_runs(line))


def note_end(store: Store, plan: RunPlan) -> None:
    """Write the line of a run of which a stage has ended, and what the ledger says of its model.

    What is on record stays so where the store does not answer any more: its run does not fail of it.
    """
    try:
        run = noted_line(store, plan.spec.name, planned(plan))
    except RatchetError as error:
        _log.warning("the line of run %s of %s is not written: %s", plan.run_id, plan.spec.name, error)
        return
    write_index(store, plan.spec.name, lambda index: with_ledgers(store, index, run))


def note_production(store: Store, record: Record) -> None:
    """Write what a person has recorded in a ledger, so that a page need not read it there. Where it fails, it does."""
    with suppress(RatchetError):
        if known_index(store, record.pipeline) is not None:
            write_index(store, record.pipeline, lambda index: with_ledgers(store, index, models={record.model}))


def newest_runs(store: Store, pipeline: str) -> Iterator[IndexedRun]:
    """The runs that have a plan, the one that was planned last first. What else the lines say may be old.

    By the plans, not by the times of files. Reads the plans of those runs alone that have no line, as far as they may
    be the newest.
    """
    marks = {paths.last(mark.key): mark for mark in store.list(paths.nights(pipeline))}
    index = known_index(store, pipeline) or RunIndex()
    known = [run for run in index.runs if marks.pop(run.run_id, None)]
    return newest_first(
        marks.values(), lambda mark: line_of_mark(store, pipeline, mark), lambda run: run.created, known
    )


def newest_ids(store: Store, pipeline: str, most: int) -> list[str]:
    """The ids of the newest runs, the newest last."""
    return [run.run_id for run in islice(newest_runs(store, pipeline), most)][::-1]


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
