"""The days that the snapshot holds, so that a past day is never read from the source again. See docs/adr/048.

A change here violates the promise of the project when a day that has not changed in the source is read from there, when
a day that the source no longer has is missing although the snapshot has it, or when the index decides what bytes a
day has: each reader compares the file with the digest in the plan.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from types import MappingProxyType

from ratchet.contracts import data_versions, paths
from ratchet.contracts.errors import CorruptArtifact, NoAnswer
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import SourceDay, SourceFile
from ratchet.contracts.result import StageResult
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.contracts.snapshot_index import HeldDay, SnapshotIndex
from ratchet.contracts.source_columns import as_written
from ratchet.contracts.stored import take
from ratchet.runtime.sources import list_days
from ratchet.store.base import Store
from ratchet.store.publishing import read_manifest
from ratchet.store.sealed import seal, seal_again, unseal

_TRIES = 20
_THREADS = 8
_FILE = "source."
_VERSION = "version.rows"
ANSWER = "changed.answer"
"""The part of a day's fingerprint with what source.changed said."""
OPEN = "open.listed"
"""The part of a day that was read before it had ended: it is never held."""
JOINED = "joined."
"""Before the name of a join: the part with what its columns are made from."""


def table_of(spec: PipelineSpec) -> str:
    """The key of a pipeline's snapshot table. Another list of columns is another table."""
    written = as_written(spec.source)
    return paths.table(spec.name, digest_of([*spec.source_columns.items(), *([written] if written else [])]))


def source_days(
    store: Store, spec: PipelineSpec, days: Sequence[date], *, own: bool = True, rebuild: bool = False
) -> tuple[str, tuple[SourceDay, ...]]:
    """The URI of a source's root, and each day of a window: its files, or what the snapshot has in their place.

    That is the day as it was read, where the source has no file of it any more, or only some of those that it was read
    from: what it no longer has is not lost. It is never the newest day, the data date: that one has to come.

    days: oldest first. own: whether the source is that of the pipeline; of another one the snapshot has nothing.
    rebuild: read what the source still has of a day. Raises what listing the source raises.
    """
    root, listed = list_days(spec.source, days, spec.day_bounds)
    if not own:
        return root, listed
    index = read_index(store, spec)
    held = {day.day: found for day in listed[:-1] if (found := _in_its_place(index, day, rebuild=rebuild)) is not None}
    stored = {entry.key: entry.bytes for entry in store.list(table_of(spec))} if held else {}
    there = {day: found for day, found in held.items() if stored.get(found.file.key) == found.file.bytes}
    return root, tuple(day.model_copy(update={"held": there.get(day.day)}) for day in listed)


def _in_its_place(index: SnapshotIndex, day: SourceDay, *, rebuild: bool) -> SnapshotDay | None:
    if day.files:
        return None if rebuild else index.rest(day)
    held = index.days.get(day.day)
    return held.day if held else None


def read_index(store: Store, spec: PipelineSpec) -> SnapshotIndex:
    """What the table holds of each day; without an index, or with a damaged one, what was published of it says so."""
    return _read(store, spec)[0]


def hold(
    store: Store,
    spec: PipelineSpec,
    read: Mapping[date, HeldDay],
    compared: Mapping[date, HeldDay] = MappingProxyType({}),
    *,
    replace: bool,
) -> None:
    """Say that the table holds the days that were read. replace: also where it holds a day already.

    compared: days of the index whose files were compared since; of one that another run has replaced meanwhile nothing
    is said. Raises NoAnswer after many conflicts with other runs.
    """
    key = paths.snapshot_index(table_of(spec))
    for _ in range(_TRIES):
        index, etag, data = _read(store, spec)
        still = {day: held for day, held in compared.items() if index.entry(held.day) is not None}
        new = {day: held for day, held in read.items() if _is_due(index, held, replace=replace)}
        changed = {day: held for day, held in {**still, **new}.items() if index.days.get(day) != held}
        if data is not None and not changed:
            return
        after = SnapshotIndex(days={**index.days, **changed})
        if store.replace(key, seal(after) if data is None else seal_again(data, index, after), expected=etag):
            return
    raise NoAnswer(f"{store.uri}/{key}: other runs keep writing it")


def _is_due(index: SnapshotIndex, held: HeldDay, *, replace: bool) -> bool:
    """Whether the index has to say this of a day: it has nothing, or something of an older listing of the source."""
    known = index.days.get(held.day.day)
    if known is None or known.listed is None or held.listed is None:
        return replace or known is None
    return replace and known.listed <= held.listed


def _read(store: Store, spec: PipelineSpec) -> tuple[SnapshotIndex, str | None, bytes | None]:
    """The index, its etag, and its bytes; None of one that is damaged or of before, which is made again."""
    key = paths.snapshot_index(table_of(spec))
    entry = store.head(key)
    try:
        if entry is not None:
            data = store.read(key)
            return unseal(data, SnapshotIndex, where=f"{store.uri}/{key}", remedy="run again"), entry.etag, data
    except (CorruptArtifact, FileNotFoundError):
        pass
    return _made_again(store, spec), entry.etag if entry else None, None


def _made_again(store: Store, spec: PipelineSpec) -> SnapshotIndex:
    """The newest published part of each day of the table."""
    table = table_of(spec)
    listed = [entry.key for entry in store.list(paths.published(spec.name, paths.day_part("ingest")))]
    found = [key for key in listed if key == paths.manifest(paths.published_prefix(key))]
    with ThreadPoolExecutor(_THREADS) as pool:
        results = [one for one in pool.map(partial(_result, store), found) if one is not None and OPEN not in one.parts]
    days: dict[date, HeldDay] = {}
    for result in sorted(results, key=lambda one: one.finished):
        day = take(SnapshotDay, result.summary)
        if day.file.key.startswith(f"{table}/"):
            files = tuple(_file(name, text) for name, text in result.parts.items() if name.startswith(_FILE))
            answer, version = result.parts.get(ANSWER, ""), int(result.parts.get(_VERSION, "1"))
            joined = {name.removeprefix(JOINED): one for name, one in result.parts.items() if name.startswith(JOINED)}
            days[day.day] = HeldDay(day=day, files=files, version=version, answer=answer, joined=joined)
    return SnapshotIndex(days=days)


def _result(store: Store, key: str) -> StageResult | None:
    try:
        return read_manifest(store, key).result
    except CorruptArtifact:
        return None


def file_parts(planned: SourceDay) -> dict[str, str]:
    """The parts of a day's fingerprint that say which files it is read from, and which version its rows have."""
    files = {f"{_FILE}{file.key}": f"{file.bytes} {file.identity}" for file in planned.files}
    return {_VERSION: str(data_versions.ROWS), **files}


def _file(name: str, text: str) -> SourceFile:
    """A file of `file_parts`."""
    size, _, identity = text.partition(" ")
    return SourceFile(key=name.removeprefix(_FILE), bytes=int(size), identity=identity)
