"""The days of the window that are not read from the source, because the snapshot has them.

A change here violates the promise of the project when a day is taken from the snapshot although the source has another
one now and the run wants that, when a file is taken that may have changed since its bytes were compared, or when rows
are taken that newer ones have replaced, and a collection that has seen them may still delete them.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date

from ratchet.contracts.errors import CorruptArtifact, DataRejected, SourceChanged
from ratchet.contracts.request import AsOf
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.contracts.snapshot_index import HeldDay, SnapshotIndex
from ratchet.runtime.context import StageContext
from ratchet.runtime.days import doubted, is_turn, rebuilds
from ratchet.store.artifacts import sha256_file
from ratchet.store.base import Entry
from ratchet.store.cache import scratch
from ratchet.store.removals import expired, in_its_place, removals, successors

_REMEDY: dict[AsOf, str] = {
    "now": "restore the file from a backup, or delete it and run again: then the day is missing",
    "then": "restore the file from a backup, or run with as_of: now",
}


def take_held(
    ctx: StageContext,
    index: SnapshotIndex,
    stored: Mapping[str, Entry],
    answers: Mapping[date, str],
    joined: Callable[[date], Mapping[str, str]] = lambda _: {},
) -> dict[date, SnapshotDay]:
    """The days whose rows are those that the table has: planned so, or not changed in the source since they were read.

    stored: the files of the table. One that is cut or changed is not taken: then the day is read again. answers: of
    source.changed, for the days of which it was asked. joined: what the joined columns of a day are made from. Raises
    CorruptArtifact for one that is planned to come from the snapshot, and SourceChanged if another run has read other
    rows of a day since this one listed the source.
    """
    compared, removed = _compared(ctx, index, stored), removals(ctx.store, ctx.spec.name)
    purged, gone = successors(removed), expired(removed)
    taken: dict[date, SnapshotDay] = {}
    for planned in ctx.request.source:
        if ctx.request.as_of == "now" and index.is_newer(planned, ctx.request.listed):
            raise SourceChanged(
                f"{planned.day}: another run has read other rows of it since this run was planned",
                remedy="run again if no retry follows",
            )
        held = in_its_place(planned.held, purged) if planned.held is not None else None
        day = held or (
            None
            if rebuilds(ctx, planned.day)
            else index.unchanged(planned, answers.get(planned.day), joined(planned.day))
        )
        if day is not None and _is_there(ctx, day, index, stored, compare=planned.day in compared):
            taken[planned.day] = day
            if planned.held is not None and ctx.request.as_of == "now" and _is_joined_otherwise(index, day, joined):
                said = "other rows of a further source would be joined to it now; it stays as it was read"
                ctx.log.event("held", f"{day.day}: its source has it no more; {said}", level="warning")
        elif held is not None and planned.day in gone:
            raise DataRejected(
                f"{planned.day}: its rows {gone[planned.day].line}",
                remedy="start a new run, which reads what the source has of the day, or run a newer date",
            )
        elif planned.held is not None:
            raise CorruptArtifact(_lost(ctx, planned.held), remedy=_REMEDY[ctx.request.as_of])
        elif planned.missing and planned.day in index.days and planned.day != ctx.request.data_date:
            ctx.log.event("damaged", f"{_lost(ctx, index.days[planned.day].day)}; no source has it", level="warning")
    return taken


def _is_joined_otherwise(index: SnapshotIndex, day: SnapshotDay, joined: Callable[[date], Mapping[str, str]]) -> bool:
    known = index.entry(day)
    return known is not None and known.joined != joined(day.day)


def take_filled(
    ctx: StageContext,
    index: SnapshotIndex,
    stored: Mapping[str, Entry],
    planned: Iterable[date],
    read: Iterable[SnapshotDay],
) -> dict[date, SnapshotDay]:
    """The days before the data date that the table has rows of, and for which the source gave none this time.

    planned: the days that were to be read.
    """
    emptied = {*planned} - {day.day for day in read if day.file.rows} - {ctx.request.data_date}
    known = [index.days[day].day for day in sorted(emptied) if day in index.days and not rebuilds(ctx, day)]
    return {day.day: day for day in known if day.file.rows and _is_whole(ctx, day, index, stored, compare=True)}


def _lost(ctx: StageContext, day: SnapshotDay) -> str:
    return f"the snapshot has lost the rows of {day.day}: {ctx.store.uri}/{day.file.key} is damaged or gone"


def _compared(ctx: StageContext, index: SnapshotIndex, stored: Mapping[str, Entry]) -> set[date]:
    """The days whose bytes are compared although nobody has written them: some each night.

    Over the network these are days that nobody has compared yet.
    """
    days = [day.day for day in ctx.request.source]
    if doubted(ctx):
        return {*days}
    if all(ctx.store.local(key) is None for key in [*stored][:1]):
        return {day for day in days if is_turn(ctx, day) and day in index.days and not index.days[day].etag}
    read_tonight = ctx.spec.holdout_window(ctx.request.data_date)
    return {day for day in days if day in read_tonight or is_turn(ctx, day)}


def _is_there(
    ctx: StageContext, day: SnapshotDay, index: SnapshotIndex, stored: Mapping[str, Entry], *, compare: bool
) -> bool:
    """As `_is_whole`. Rows that newer ones have replaced are written again: `ratchet gc` deletes what it has seen."""
    newest = index.days.get(day.day)
    if newest is None or newest.day.file.key == day.file.key or day.file.key not in stored:
        return _is_whole(ctx, day, index, stored, compare=compare)
    with scratch() as folder:
        try:
            ctx.store.download(day.file.key, path := folder / "day.parquet")
        except FileNotFoundError:
            return False
        if sha256_file(path) != day.file.sha256:
            return False
        ctx.store.upload(path, day.file.key)
    return True


def _is_whole(
    ctx: StageContext, day: SnapshotDay, index: SnapshotIndex, stored: Mapping[str, Entry], *, compare: bool
) -> bool:
    """Whether the file of a day has the bytes of its digest, now or when they were last compared."""
    entry, known = stored.get(day.file.key), index.entry(day)
    if entry is None or entry.bytes != day.file.bytes:
        return False
    far = ctx.store.local(entry.key) is None
    if known is not None and not compare and (known.etag == entry.etag or (far and not known.etag)):
        return True
    with scratch() as folder:  # not by `fetch`, which may have a copy of its own
        path = ctx.store.local(entry.key)
        if path is None:
            ctx.store.download(entry.key, path := folder / "day.parquet")
        return sha256_file(path) == day.file.sha256


def compared(
    ctx: StageContext, index: SnapshotIndex, taken: Mapping[date, SnapshotDay], stored: Mapping[str, Entry]
) -> dict[date, HeldDay]:
    """What the index has to say of the days that were taken: the etags of files whose bytes have been compared."""
    found = {day: known for day, held in taken.items() if (known := index.entry(held)) is not None}
    unread = {day for day, known in found.items() if not known.etag and ctx.store.local(known.day.file.key) is None}
    unread -= _compared(ctx, index, stored) if unread else set()
    return {
        day: known.model_copy(update={"etag": stored[known.day.file.key].etag})
        for day, known in found.items()
        if day not in unread
    }
