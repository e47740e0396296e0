"""One day of the source as one Parquet file."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import CorruptArtifact, SourceChanged
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import SourceDay, SourceFile
from ratchet.contracts.source import DeltaSource, FilesSource, Source, SqlSource
from ratchet.runtime.delta_listing import SORTED
from ratchet.runtime.sources import csv_of, identity, open_root, readable
from ratchet.store.artifacts import sha256_file
from ratchet.store.base import Store
from tasks.ingest.reading import read
from tasks.ingest.schema import arrow_schema
from tasks.ingest.source_columns import as_declared, in_source
from tasks.ingest.traits import SourceTraits
from tasks.ingest.writing import DayFile, write


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltDay:
    """A day's file in scratch.

    source: see SnapshotDay. traits: what the source shows beside its rows.
    """

    file: DayFile
    source: str
    traits: SourceTraits


def build(
    spec: PipelineSpec, root: str, planned: SourceDay, *, columns: dict[str, ColumnType], scratch: Path
) -> BuiltDay:
    """Read a day, cast it, and write its file into an empty scratch folder.

    Raises DataRejected for a file that is empty, cannot be read, lacks a column, has another type, or mixes timestamps
    with and without a zone; SourceChanged for one that has changed since the run was planned, which it checks before
    and after it reads the file; ConfigurationError for one that this user may not read.
    """
    source, target = spec.source, scratch / "day.parquet"
    schema = arrow_schema(columns)
    traits, found = SourceTraits(), in_source(source, columns)
    if isinstance(source, SqlSource | DeltaSource):
        batches = as_declared(source, _rows(spec, source, root, planned, found, traits), columns, planned.day)
        if isinstance(source, SqlSource) or planned.files[0].identity.startswith(SORTED):
            from tasks.ingest.row_order import in_order

            batches = in_order(batches, schema, scratch / "sort")
        written = write(batches, schema, target)
        # Not the table's version, which each commit to another day changes.
        return BuiltDay(file=written, source=written.sha256, traits=_declared(source, traits, columns))
    store = open_root(root)
    with readable(root):
        local = [_take(source, store, root, planned, file, scratch / str(i)) for i, file in enumerate(planned.files)]
        try:
            digests = [[file.key, sha256_file(path)] for file, path in zip(planned.files, local, strict=True)]
            batches = as_declared(source, _files(source, planned, local, found, traits), columns, planned.day)
            written = write(batches, schema, target)
        finally:
            # If a file changed while it was read, report that, and not the error of a partial file.
            for file in planned.files:
                _check_unchanged(source, store, root, planned, file)
    return BuiltDay(file=written, source=digest_of(digests), traits=_declared(source, traits, columns))


def _declared(source: Source, traits: SourceTraits, columns: dict[str, ColumnType]) -> SourceTraits:
    """The traits under the declared names."""
    zones = {name: traits.zones.get(source.names.get(name, name)) for name in columns}
    traits.zones = {name: zone for name, zone in zones.items() if zone is not None}
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
