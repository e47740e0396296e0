"""The files of a pipeline's days in its tables: which hold rows of a key, and what takes the place of each."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, Unavailable
from ratchet.contracts.pipeline import PARTITION
from ratchet.contracts.removal import Removal, RemovedDay
from ratchet.contracts.result import Artifact
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.contracts.snapshot_index import HeldDay, SnapshotIndex
from ratchet.store.base import Entry, Store
from ratchet.store.disk import disk_fault
from ratchet.store.sealed import replace_sealed, unseal
from tasks.ingest.purged_rows import count_hits, hits, rest, searched
from tasks.ingest.stored_days import file_key, table_file

_TRIES = 20


class TableFile(NamedTuple):
    """A file of a day. sha256: its digest, which is its name."""

    table: str
    day: date
    sha256: str
    entry: Entry


class FoundDay(NamedTuple):
    """A file with rows of a key. rows: of the key. total: all rows."""

    file: TableFile
    rows: int
    total: int


def table_files(store: Store, pipeline: str) -> list[TableFile]:
    """The files of all tables of a pipeline, also those that were replaced."""
    found = []
    for entry in list(store.list(paths.table(pipeline))):
        table, _, rest_of_key = entry.key.partition(f"/{PARTITION}=")
        day, _, name = rest_of_key.partition("/")
        if day and name.endswith(".parquet"):
            found.append(TableFile(table, date.fromisoformat(day), name.removesuffix(".parquet"), entry))
    return found


def at_hand(store: Store, key: str, scratch: Path) -> Path:
    """A local file with the bytes of a file of the store."""
    if (local := store.local(key)) is not None:
        return local
    target = scratch / "file"
    store.download(key, target)
    return target


@contextmanager
def opened(store: Store, file: TableFile, scratch: Path) -> Iterator[Path]:
    """A local file with the bytes of one of these. An error of the disk says nothing of what is in it."""
    path = at_hand(store, file.entry.key, scratch)
    try:
        yield path
    except OSError as error:
        if (kind := disk_fault(error)) is None:
            raise
        raise kind(
            f"{store.uri}/{file.entry.key} cannot be read now: {error}",
            remedy="check the disk and the system's log, and run the command again",
        ) from error


def search(
    store: Store, files: Sequence[TableFile], purges: Mapping[str, Sequence[Removal]], scratch: Path
) -> tuple[list[FoundDay], list[TableFile]]:
    """The files with rows of a key, and those that do not have its column, or have lists in it.

    purges: of each table. Raises CorruptArtifact for a damaged file, and what `opened` raises.
    """
    found, without = [], []
    for file in files:
        try:
            with opened(store, file, scratch) as path:
                footer = pq.read_metadata(path)
                if not searched(footer.schema.to_arrow_schema(), purges[file.table]):
                    without.append(file)
                elif rows := count_hits(path, purges[file.table]):
                    found.append(FoundDay(file, rows, footer.num_rows))
        except (pa.ArrowException, OSError) as error:
            raise CorruptArtifact(
                f"{store.uri}/{file.entry.key} cannot be searched: {error}",
                remedy="restore it from a backup, or delete it, and run the command again",
            ) from error
    return found, without


def without_rows(
    store: Store, found: FoundDay, known: SnapshotDay, purges: Sequence[Removal], scratch: Path
) -> RemovedDay:
    """Store what is left of a file beside it. known: the day as it was published."""
    with opened(store, found.file, scratch) as path:
        written = rest(path, pq.read_schema(path), purges, scratch / "rest.parquet")
    key = file_key(found.file.table, found.file.day, written.sha256)
    store.upload(written.path, key)
    file = Artifact(key=key, sha256=written.sha256, bytes=written.bytes, rows=written.rows)
    return RemovedDay(
        day=found.file.day,
        before=found.file.sha256,
        rows=found.rows,
        bytes=found.file.entry.bytes,
        after=known.model_copy(update={"file": file}),
    )


def removed_rows(store: Store, file: TableFile, purges: Sequence[Removal], scratch: Path) -> pa.Table:
    """The rows of a key in a file."""
    with opened(store, file, scratch) as path, pq.ParquetFile(path) as rows:
        batches = [batch.filter(hits(batch, purges)) for batch in rows.iter_batches()]
        return pa.Table.from_batches(batches, rows.schema_arrow)


def indexes(store: Store, pipeline: str, *, repair: bool = False) -> Iterator[tuple[str, SnapshotIndex, str]]:
    """The index of each table: its key, what it says, and its etag, but for damaged ones.

    repair: delete those, which name files that go; the next night makes them again.
    """
    tables = {file.table for file in table_files(store, pipeline)}
    for key in sorted(map(paths.snapshot_index, tables)):
        if (entry := store.head(key)) is None:
            continue
        try:
            yield key, unseal(store.read(key), SnapshotIndex, where=key, remedy="run again"), entry.etag
        except CorruptArtifact:
            if repair:
                store.delete(key, expected=entry.etag)


def replace_in_indexes(store: Store, pipeline: str, days: Mapping[str, RemovedDay]) -> None:
    """Let each index name what takes the place of these files, by the digest of each; an expired day is in no index."""
    for _ in range(_TRIES):
        lost = False
        for key, index, etag in indexes(store, pipeline, repair=True):
            changed = {day: _changed(held, days) for day, held in index.days.items()}
            kept = {day: held for day, held in changed.items() if held is not None}
            if kept != index.days:
                lost |= not replace_sealed(store, key, SnapshotIndex(days=kept), expected=etag)
        if not lost:
            return
    raise Unavailable(f"{store.uri}/{paths.table(pipeline)}: other processes keep writing the indexes")


def _changed(held: HeldDay, days: Mapping[str, RemovedDay]) -> HeldDay | None:
    removed = days.get(held.day.file.sha256)
    if removed is None:
        return held
    if removed.after is None:
        return None
    return held.model_copy(update={"day": held.day.model_copy(update={"file": removed.after.file}), "etag": ""})


def replace_in_tables(store: Store, tables: set[str], days: Mapping[str, RemovedDay]) -> None:
    """Let the newest version of each table name what takes the place of these files."""
    from tasks.ingest.snapshot_table import replace_files

    after = {
        sha256: table_file(one.day, one.after.file) if one.after is not None else None for sha256, one in days.items()
    }
    for table in sorted(tables):
        replace_files(store, table, after)
