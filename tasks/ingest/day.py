"""One day of the source as one Parquet file."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import CorruptArtifact, DataRejected, SourceChanged
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.removal import Removal
from ratchet.contracts.request import SourceDay, SourceFile
from ratchet.contracts.source import DeltaSource, FilesSource, Source, SqlSource
from ratchet.runtime.delta_listing import SORTED
from ratchet.runtime.sources import csv_of, identity, open_root, readable
from ratchet.store.artifacts import sha256_file
from ratchet.store.base import Store
from tasks.ingest.joining import DayJoin
from tasks.ingest.purged_rows import as_read, count_hits, rest, with_keys
from tasks.ingest.reading import read
from tasks.ingest.schema import arrow_schema
from tasks.ingest.source_columns import as_declared, in_source, own_keys
from tasks.ingest.traits import SourceTraits
from tasks.ingest.writing import ROW_GROUP, DayFile, write


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltDay:
    """A day's file in scratch.

    source: see SnapshotDay. traits: what the source shows beside its rows.
    """

    file: DayFile
    source: str
    traits: SourceTraits


def build(
    spec: PipelineSpec,
    root: str,
    planned: SourceDay,
    *,
    columns: dict[str, ColumnType],
    scratch: Path,
    purges: Sequence[Removal] = (),
    join: DayJoin | None = None,
    moment: str | None = None,
) -> BuiltDay:
    """Read a day, cast it, join it, and write its file into an empty scratch folder, without the rows of purged keys.

    The day's `source` is that of all its rows, and of what the main source has of them: with it, the records of the day
    hold for what is left of its rows, and whatever is joined to them.
    moment: the column whose time decides what is joined.
    Raises DataRejected for a file that is empty, cannot be read, lacks a column, has another type, or mixes timestamps
    with and without a zone; SourceChanged for one that has changed since the run was planned, which it checks before
    and after it reads the file; ConfigurationError for one that this user may not read.
    """
    joined = [one for one in purges if one.column in spec.joined_columns]
    own, lost = as_read(spec.source, columns, [one for one in purges if one.column not in spec.joined_columns])
    purges, read = [*own, *joined], with_keys(columns, own)
    with own_keys(spec.source, read):
        try:
            built = _read(spec, root, planned, read, scratch, join, moment)
        except DataRejected:
            if read == columns:
                raise
            # The pipeline file does not have the column of a key any more, and the source neither.
            built = _read(spec, root, planned, columns, _emptied(scratch), join, moment)
            built.traits.unsearched |= read.keys() - columns.keys()
            read = columns
    built.traits.unsearched.update(lost)
    if read == columns and not count_hits(built.file.path, purges):
        return built
    schema = arrow_schema(spec.source_columns if join else columns)
    return replace(built, file=rest(built.file.path, schema, purges, scratch / "rest.parquet"))


def _emptied(scratch: Path) -> Path:
    for path in scratch.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return scratch


def _read(
    spec: PipelineSpec,
    root: str,
    planned: SourceDay,
    columns: dict[str, ColumnType],
    scratch: Path,
    join: DayJoin | None,
    moment: str | None,
) -> BuiltDay:
    source, target = spec.source, scratch / "day.parquet"
    schema = arrow_schema(columns)
    moments = {source.names.get(moment, moment)} if moment else set()
    traits, found = SourceTraits(moments=frozenset(moments)), in_source(source, columns)
    if isinstance(source, SqlSource | DeltaSource):
        batches = as_declared(source, _rows(spec, source, root, planned, found, traits), columns, planned.day)
        if isinstance(source, SqlSource) or planned.files[0].identity.startswith(SORTED):
            from tasks.ingest.row_order import in_order

            batches = in_order(batches, schema, scratch / "sort")
        own = write(batches, schema, target)
        declared = _declared(source, traits, columns, join)
        written = join.write(_batches(own.path, schema), schema, scratch / "joined.parquet") if join else own
        # Not the table's version, which each commit to another day changes; and without what is joined.
        return BuiltDay(file=written, source=own.sha256, traits=declared)
    store = open_root(root)
    with readable(root):
        local = [_take(source, store, root, planned, file, scratch / str(i)) for i, file in enumerate(planned.files)]
        try:
            digests = [[file.key, sha256_file(path)] for file, path in zip(planned.files, local, strict=True)]
            batches = as_declared(source, _files(source, planned, local, found, traits), columns, planned.day)
            written = join.write(batches, schema, target) if join else write(batches, schema, target)
        finally:
            # If a file changed while it was read, report that, and not the error of a partial file.
            for file in planned.files:
                _check_unchanged(source, store, root, planned, file)
    return BuiltDay(file=written, source=digest_of(digests), traits=_declared(source, traits, columns, join))


def _batches(path: Path, schema: Any) -> Iterator[Any]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(ROW_GROUP):
            yield batch.cast(schema)


def _declared(
    source: Source, traits: SourceTraits, columns: dict[str, ColumnType], join: DayJoin | None
) -> SourceTraits:
    """The traits under the declared names. Raises DataRejected if the joins have times of another kind."""
    zones = {name: traits.zones.get(source.names.get(name, name)) for name in columns}
    traits.zones = {name: zone for name, zone in zones.items() if zone is not None}
    traits.dates = {name for name in columns if source.names.get(name, name) in traits.dates}
    if join is not None:
        join.refuse_other_zone(traits.zones)
    return traits


def _rows(
    spec: PipelineSpec,
    source: SqlSource | DeltaSource,
    root: str,
    planned: SourceDay,
    columns: dict[str, ColumnType],
    traits: SourceTraits,
) -> Iterator[Any]:
    if isinstance(source, SqlSource):
        from tasks.ingest.sql_source import read_query

        return read_query(source, planned.day, spec.day_bounds(planned.day), columns, traits)
    from tasks.ingest.delta_source import read_delta

    return read_delta(root, source, planned, columns, traits)


def _files(
    source: FilesSource, planned: SourceDay, local: list[Path], columns: dict[str, ColumnType], traits: SourceTraits
) -> Iterator[Any]:
    texts = {source.names.get(name, name): found for name, found in source.codes.items()}
    codes = {name: found for name, found in texts.items() if name in columns}
    return chain.from_iterable(
        read(
            path,
            day=planned.day,
            name=file.key,
            columns=columns,
            traits=traits,
            csv=csv_of(source, file.key),
            codes=codes,
        )
        for file, path in zip(planned.files, local, strict=True)
    )


def _take(source: FilesSource, store: Store, root: str, planned: SourceDay, file: SourceFile, target: Path) -> Path:
    """A source file on this machine: in place if possible, else a copy."""
    _check_unchanged(source, store, root, planned, file)
    if path := store.local(file.key):
        return path
    try:
        store.download(file.key, target)
    except FileNotFoundError:
        raise _change_error(root, planned, file) from None
    if target.stat().st_size != file.bytes:
        raise CorruptArtifact(
            f"{root}/{file.key}: {target.stat().st_size} bytes instead of {file.bytes} were read",
            remedy="run again; if this continues, check the storage of the source",
        )
    return target


def _check_unchanged(source: FilesSource, store: Store, root: str, planned: SourceDay, file: SourceFile) -> None:
    entry = store.head(file.key)
    if entry is None or identity(source, root, entry) != file.identity:
        raise _change_error(root, planned, file)


def _change_error(root: str, planned: SourceDay, file: SourceFile) -> SourceChanged:
    return SourceChanged(
        f"{planned.day}: {root}/{file.key} changed or disappeared after the run was planned",
        remedy="wait until its writer has finished, then run again if no retry follows",
    )
