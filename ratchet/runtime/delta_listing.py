"""The days of a Delta table, from its log."""

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, NoAnswer
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.request import SourceDay, SourceFile
from ratchet.contracts.source_uri import join, parse
from ratchet.runtime.delta_errors import is_of_the_way, one_line
from ratchet.store.opening import open_store

if TYPE_CHECKING:
    from deltalake import DeltaTable

_PLAIN = frozenset({"timestampNtz"})
"""The reader features of Delta with which each file holds the rows and columns of the table."""
_MERGED = frozenset({"deletionVectors", "columnMapping"})
"""Those with which the log says which rows of a file count, and what its columns are called."""
_MAPPING = "delta.columnMapping.mode"
SORTED = "sorted"
"""How the identity of a day begins whose rows have no order of their own, because the table has such a feature."""


def table_uri(uri: str) -> str:
    """A Delta table's URI with its scheme: `/data/t` -> `file:///data/t`."""
    return join(*parse(uri))


def delta_options(root: str) -> dict[str, str]:
    """The storage options of a source's Delta table: those of a store in the same place."""
    scheme, base, steps = parse(root)
    if scheme != "s3":
        return {}
    return open_store(f"{scheme}://{base}").table("/".join(steps))[1]


def open_table(root: str, version: int | None = None) -> "DeltaTable":
    """Open a source's Delta table. version: the newest if None.

    Raises ConfigurationError if the table does not exist or has features that ingest cannot read, and NoAnswer.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError

    try:
        table = DeltaTable(root, version=version, storage_options=delta_options(root))
        _refuse_features(root, table)
    except TableNotFoundError as error:
        raise ConfigurationError(f"source.uri: no Delta table exists at {root}", remedy="check source.uri") from error
    except DeltaProtocolError as error:
        raise _unreadable(root, str(error)) from error
    except (DeltaError, OSError) as error:
        said = "" if is_of_the_way(error) else str(error)  # such an error names the address, which may have each word
        if "olumn mapping" in said:
            raise _unreadable(root, "column mapping") from error
        if "Unsupported" in said:
            raise _unreadable(root, said.partition("\n")[0]) from error
        if version is not None and "version" in said:
            raise ConfigurationError(
                f"source.uri: the Delta table {root} has no version {version}",
                remedy="set source.version to a version that the table still has, or leave it out",
            ) from error
        raise NoAnswer(f"source.uri: the Delta table {root} cannot be read: {one_line(error)}") from error
    return table


def _features(table: "DeltaTable") -> set[str]:
    features = {*(table.protocol().reader_features or ())} - _PLAIN
    if table.metadata().configuration.get(_MAPPING, "none") != "none":
        features.add("columnMapping")
    return features


def _refuse_features(root: str, table: "DeltaTable") -> None:
    """Refuse newer features: rows or columns would be wrong, or unreadable."""
    if features := _features(table) - _MERGED:
        raise _unreadable(root, ", ".join(sorted(features)))


def _unreadable(root: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"source.uri: the Delta table {root} has a feature that cannot be read: {what}",
        remedy="write the table without it (in Spark: ALTER TABLE ... DROP FEATURE), or read it with source.kind: sql",
    )


def delta_days(root: str, date_column: str, days: Sequence[date], version: int | None = None) -> tuple[SourceDay, ...]:
    """The files of a Delta table by day, from its log. Raises what `open_table` raises.

    A day of a table that is not partitioned by it is known by the table's version; so is one with deletion vectors or
    mapped columns, of which the list of files does not say which rows they have.
    """
    from deltalake.exceptions import DeltaError

    table = open_table(root, version)
    try:
        columns = [field.name for field in table.schema().fields]
        merged = bool(_features(table))
        partitioned = date_column in table.metadata().partition_columns and not merged
        actions = table.get_add_actions(flatten=True) if partitioned else None
    except (DeltaError, OSError) as error:
        raise NoAnswer(f"source.uri: the Delta table {root} cannot be read: {one_line(error)}") from error
    if date_column not in columns:
        raise ConfigurationError(
            f"source.date_column: {date_column} is not a column of the table", remedy=f"use one of {', '.join(columns)}"
        )
    if actions is None:
        identity = f"{SORTED if merged else 'version'}:{table.metadata().id}:{table.version()}"
        return tuple(
            SourceDay(day=day, files=(SourceFile(key=f"{date_column}={day}", bytes=0, identity=identity),))
            for day in days
        )
    rows = actions.select(["path", "size_bytes", "modification_time", f"partition.{date_column}"]).to_struct_array()
    files: dict[str, list[tuple[str, int, int]]] = {}
    table_id = str(table.metadata().id)
    for row in rows.to_pylist():
        path, size, modified, value = row.values()
        files.setdefault(str(value), []).append((path, size, modified))
    return tuple(
        SourceDay(day=day, files=_partition(table_id, date_column, day, files.get(paths.day(day), []))) for day in days
    )


def _partition(table_id: str, date_column: str, day: date, files: list[tuple[str, int, int]]) -> tuple[SourceFile, ...]:
    if not files:
        return ()
    size = sum(file[1] for file in files)
    return (
        SourceFile(key=f"{date_column}={day}", bytes=size, identity=f"files:{digest_of([table_id, sorted(files)])}"),
    )
