"""All nights of a pipeline in a few requests, however many runs it has: from a document with a line for each date.

A run writes its line when it is planned, when a stage fails, when it ends, and when a stage of it is done again. The
line of a run that has not ended is not believed: the reader reads that run's records, and so sees what a crash left
out. Two weeks later the next plan writes the line as the records are then. A document that is lost, damaged or of an
older form is made again from the runs: by the next run, or by the watch, since a reader writes nothing.

A change here violates the promise of the project when a page shows another verdict of a run than is on record, or a
model as the one in production that the ledger does not name.
"""

import logging
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, OtherRelease, RatchetError
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.judgements import Interval
from ratchet.contracts.request import RunKind, RunPlan
from ratchet.contracts.run_index import FORM, IndexedLedger, IndexedRun, RunIndex, Standing, planned
from ratchet.runs.history import plan_of
from ratchet.runs.run_state import read_run
from ratchet.runs.standstill import only_removal
from ratchet.store.base import Entry, Store
from ratchet.store.documents import read_document
from ratchet.store.ledger import Record, champion_of
from ratchet.store.ledger_chain import read_chain, read_record

_READERS = 8
_TRIES = 10
_WAIT_S = 0.05
_UNDER_WAY = timedelta(days=14)
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
    try:
        index = _read(store, pipeline)
    except OtherRelease:
        index = None  # what it says is on record too
    return _followed(store, pipeline, index or rebuilt(store, pipeline))


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
                    settled[run.run_id] = _on_record(store, plan.spec.name, run).model_copy(update={"ended": True})
        return index.with_runs(*settled.values(), planned(plan))

    _write(store, plan.spec.name, change)


def note_again(store: Store, plan: RunPlan) -> None:
    """Say that a stage which is on record is about to be recorded again: until `note_end` the line is not believed."""

    def change(index: RunIndex) -> RunIndex:
        ours = (run.model_copy(update={"ended": False}) for run in index.runs if run.run_id == plan.run_id)
        return index.with_runs(*ours)

    _write(store, plan.spec.name, change)


def note_end(store: Store, plan: RunPlan) -> None:
    """Write the line of a run that has ended or failed, and what the ledger says of its model."""
    run = _now(store, plan.spec.name, planned(plan))

    def change(index: RunIndex) -> RunIndex:
        ledgers = dict(index.ledgers)
        if run.model:
            ledgers[run.model] = ledger_of(store, run.model, ledgers.get(run.model))
        return index.with_runs(run).model_copy(update={"ledgers": ledgers})

    _write(store, plan.spec.name, change)


def index_etags(store: Store) -> dict[str, str]:
    """The pipelines that have a document, also those that are retired, each with its etag. One request."""
    return {paths.last(entry.key).removesuffix(".json"): entry.etag for entry in store.list(paths.run_index())}


def renew_index(store: Store, pipeline: str) -> bool:
    """Write the document of a pipeline that has runs, if it is lost, damaged or of an older form. Whether it was.

    Not while rows are removed, which changes the records that it repeats: raises Unavailable then.
    """
    with suppress(OtherRelease):  # that release reads it
        if _read(store, pipeline) is None and next(iter(store.list(paths.nights(pipeline))), None) is not None:
            with only_removal(store, pipeline, "the watch", wait_s=0.0):
                _write(store, pipeline, lambda index: index)
            return True
    return False


def rebuilt(store: Store, pipeline: str) -> RunIndex:
    """The document, from the plans and the outcomes of all runs. Reads each plan."""
    marks = list(store.list(paths.nights(pipeline)))
    with ThreadPoolExecutor(_READERS) as pool:
        runs = [run for run in pool.map(lambda mark: _planned(store, pipeline, mark), marks) if run is not None]
        newest = RunIndex(form=FORM).with_runs(*sorted(runs, key=lambda run: run.created))
        found = newest.with_runs(*pool.map(lambda run: _now(store, pipeline, run), newest.runs))
    models = {run.model for run in found.runs} - {""}
    return found.model_copy(update={"ledgers": {model: ledger_of(store, model, None) for model in sorted(models)}})


def ledger_of(store: Store, model: str, known: IndexedLedger | None) -> IndexedLedger:
    """What a ledger says now. Reads only the records that are newer than what is known, if that is still true.

    A ledger that this release cannot read says nothing, since what cannot be checked is not in production.
    """
    place = paths.ledger(model)
    beside = (paths.head_below(place), f"{paths.lost_below(place)}/")
    entries = [entry for entry in store.list(place) if not entry.key.startswith(beside)]
    before = known or IndexedLedger()
    is_known = before.number <= len(entries) and (not before.number or entries[before.number - 1].etag == before.etag)
    if is_known and before.number == len(entries):
        return before
    try:
        newer = _newer(store, model, before, len(entries)) if is_known and before.number else None
        if newer is None:
            chain = read_chain(store, model, place)
            before, newer = IndexedLedger(), (chain.records, chain.digest)
    except (CorruptArtifact, OtherRelease):
        return IndexedLedger()
    history, sha256 = newer
    number = before.number + len(history)
    promoted = {record.model_digest for record in history if record.action == "promote"}
    moved = champion_of(history)
    return IndexedLedger(
        number=number,
        etag=entries[number - 1].etag if 0 < number <= len(entries) else "",
        sha256=sha256,
        promoted=tuple(sorted({*before.promoted, *promoted})),
        live=moved.model_digest if moved is not None else before.live,
    )


def _newer(store: Store, model: str, before: IndexedLedger, number: int) -> tuple[tuple[Record, ...], str] | None:
    """The records after those that are known, and the digest of the last; None where they do not follow them."""
    found, sha256 = [], before.sha256
    for each in range(before.number + 1, number + 1):
        record, data = read_record(store, model, paths.ledger(model), each)
        if record.previous != sha256:
            return None
        found.append(record)
        sha256 = digest(data)
    return tuple(found), sha256


def _followed(store: Store, pipeline: str, index: RunIndex) -> RunIndex:
    """The index with the runs that have not ended as their records are now."""
    open_runs = [run for run in index.runs if not run.ended]
    if not open_runs:
        return index
    with ThreadPoolExecutor(_READERS) as pool:
        return index.with_runs(*pool.map(lambda run: _now(store, pipeline, run), open_runs))


def _planned(store: Store, pipeline: str, mark: Entry) -> IndexedRun | None:
    """The line of a run by its mark and its plan; None where the plan is gone, or was never written."""
    run_id = paths.last(mark.key)
    try:
        plan = plan_of(store, pipeline, run_id)
    except (CorruptArtifact, OtherRelease) as error:  # one date that cannot be read is no reason to show none
        created = datetime.fromtimestamp(mark.modified_ns / 1e9, UTC)
        day = paths.night_date(mark.key)
        return IndexedRun(day=day, run_id=run_id, kind="manual", created=created, **_unreadable(error))
    return planned(plan) if plan is not None else None


def _now(store: Store, pipeline: str, run: IndexedRun) -> IndexedRun:
    """The line of a run from its records as they are now."""
    try:
        return _on_record(store, pipeline, run)
    except OtherRelease as error:
        return run.model_copy(update=_unreadable(error))


def _on_record(store: Store, pipeline: str, run: IndexedRun) -> IndexedRun:
    """The same. Raises OtherRelease."""
    try:
        plan = plan_of(store, pipeline, run.run_id)
        return read_run(store, plan) if plan is not None else run
    except CorruptArtifact as error:
        return run.model_copy(update=_unreadable(error))


def _unreadable(error: RatchetError) -> dict[str, Any]:
    return {"standing": "failed", "cause": str(error)}


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
