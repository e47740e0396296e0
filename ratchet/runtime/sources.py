"""The contents of a source by day, without reading a row. Planning uses it, so it imports no heavy library.

The identity of a day decides whether ingest reads it again:
- files: each file's name, size and ETag (S3) or modification time.
- delta: the table's files of that day if the table is partitioned by the day, else the table's version.
- sql: the query and the date. A database does not report whether rows have changed, so ingest reads a day once, when it
  is first in a window; `rebuild` reads it again. A nightly run thus queries the database only for the new day.
"""

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.request import SourceDay, SourceFile
from ratchet.contracts.source import DeltaSource, Source, SqlSource
from ratchet.runtime.source_reach import check_roots
from ratchet.runtime.source_variables import expand
from ratchet.store.base import Entry, Store
from ratchet.store.opening import open_store

_DATE = "{date}"
_PARALLEL_LISTINGS = 8


def list_days(source: Source, days: Sequence[date]) -> tuple[str, tuple[SourceDay, ...]]:
    """The URI of a source's root, and the files of each day; a day without files is missing.

    For sql the URI is that of the pipeline file without the values of ${NAME}, which may contain a password. Raises
    ConfigurationError (a variable that is not allowed or not set, a root that does not exist or is outside of what the
    operator allows, `..`) and Unavailable.
    """
    if isinstance(source, SqlSource):
        expand(source.uri, secret=True)
        return source.uri, tuple(SourceDay(day=day, files=(_query(source, day),)) for day in days)
    uri = expand(source.uri)
    if isinstance(source, DeltaSource):
        root = table_uri(uri)
        check_roots(root)
        return root, delta_days(root, source.date_column, days)
    root, pattern = split(uri)
    check_roots(root)
    return root, _file_days(root, pattern, days)


def split(uri: str) -> tuple[str, str]:
    """Split a files URI into the root that all days share, and the pattern of a day's files below it.

    `/data/clicks/date={date}/*.parquet` -> (`file:///data/clicks`, `date={date}/*.parquet`).
    """
    scheme, base, steps = _parse(uri)
    varying = next((i for i, step in enumerate(steps) if _DATE in step or "*" in step or "?" in step), len(steps))
    if _DATE in base or not any(_DATE in step for step in steps):
        raise ConfigurationError(
            f"source.uri: {uri!r} has no place for the day", remedy="put {date} into the path, below the bucket"
        )
    return _join(scheme, base, steps[:varying]), "/".join(steps[varying:])


def table_uri(uri: str) -> str:
    """A Delta table's URI with its scheme: `/data/t` -> `file:///data/t`."""
    return _join(*_parse(uri))


def _parse(uri: str) -> tuple[str, str, list[str]]:
    """Scheme, bucket (files: empty) and path. A relative path starts at the working directory."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        scheme, rest = "file", str(Path(uri).absolute())
    elif scheme == "file":
        rest = unquote(rest)
    if scheme not in {"file", "s3", "mem"}:
        raise ConfigurationError(
            f"source.uri: {scheme}:// is not supported",
            remedy="use a path, file:///folder or s3://bucket/folder",
        )
    base, _, path = rest.partition("/")
    steps = [step for step in path.split("/") if step not in {"", "."}]
    if ".." in steps:
        raise ConfigurationError(f"source.uri: {uri!r} contains ..", remedy="write the path without ..")
    if (scheme == "file") == bool(base):
        raise ConfigurationError(
            f"source.uri: {uri!r} is not complete", remedy="use a path, file:///folder or s3://bucket/folder"
        )
    return scheme, base, steps


def _join(scheme: str, base: str, steps: Sequence[str]) -> str:
    if scheme == "file":
        return Path("/", *steps).as_uri()
    return f"{scheme}://{'/'.join([base, *steps])}"


def open_root(root: str) -> Store:
    """Open the store of a files source. Raises ConfigurationError if its folder does not exist."""
    if root.startswith("file://") and not Path(unquote(root.removeprefix("file://"))).is_dir():
        raise ConfigurationError(
            f"source.uri: the folder {unquote(root.removeprefix('file://'))} does not exist",
            remedy="check source.uri and its variables, and that the data are mounted here",
        )
    return open_store(root)


def identity(root: str, entry: Entry) -> str:
    """The identity of a file, which changes with it: size and modification time of a local file, else the ETag."""
    return f"{entry.bytes}-{entry.modified_ns}" if root.startswith("file://") else entry.etag


def _file_days(root: str, pattern: str, days: Sequence[date]) -> tuple[SourceDay, ...]:
    store = open_root(root)
    wanted = {day: pattern.replace(_DATE, paths.day(day)) for day in days}
    # One listing for each folder above a day's first wildcard.
    folders = sorted({_folder(text) for text in wanted.values()})
    with ThreadPoolExecutor(_PARALLEL_LISTINGS) as pool:
        listings = dict(zip(folders, pool.map(partial(_listing, store), folders), strict=True))
    return tuple(
        SourceDay(day=day, files=tuple(_matching(root, listings[_folder(text)], text))) for day, text in wanted.items()
    )


def _listing(store: Store, folder: str) -> list[Entry]:
    return list(store.list(folder))


def _folder(pattern: str) -> str:
    steps = pattern.split("/")
    fixed = next((i for i, step in enumerate(steps[:-1]) if "*" in step or "?" in step), len(steps) - 1)
    return "/".join(steps[:fixed])


def _matching(root: str, listing: Iterable[Entry], pattern: str) -> Iterable[SourceFile]:
    # As in Spark and Hive, a leading wildcard does not match hidden files and markers such as _SUCCESS.
    steps = [re.escape(step).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") for step in pattern.split("/")]
    expression = re.compile("/".join(f"(?![._]){step}" if step.startswith("[^/]") else step for step in steps))
    for entry in listing:
        if expression.fullmatch(entry.key):
            yield SourceFile(key=entry.key, bytes=entry.bytes, identity=identity(root, entry))


def _query(source: SqlSource, day: date) -> SourceFile:
    # The URL as it is written in the file: a new password does not change the rows.
    identity_ = digest_of([source.uri, source.query])
    return SourceFile(key=f"query/{paths.day(day)}", bytes=0, identity=f"query:{identity_}")


def delta_days(root: str, date_column: str, days: Sequence[date]) -> tuple[SourceDay, ...]:
    """The files of a Delta table by day, from its log. Raises ConfigurationError if the table does not exist."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        table = DeltaTable(root, storage_options=delta_options(root))
        columns = [field.name for field in table.schema().fields]
        partitioned = date_column in table.metadata().partition_columns
        actions = table.get_add_actions(flatten=True) if partitioned else None
    except TableNotFoundError as error:
        raise ConfigurationError(f"source.uri: no Delta table exists at {root}", remedy="check source.uri") from error
    except (DeltaError, OSError) as error:
        raise Unavailable(f"source.uri: the Delta table {root} cannot be read: {error}") from error
    if date_column not in columns:
        raise ConfigurationError(
            f"source.date_column: {date_column} is not a column of the table", remedy=f"use one of {', '.join(columns)}"
        )
    if actions is None:
        version = f"version:{table.metadata().id}:{table.version()}"
        return tuple(
            SourceDay(day=day, files=(SourceFile(key=f"{date_column}={day}", bytes=0, identity=version),))
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


def delta_options(root: str) -> dict[str, str]:
    """The storage options of a source's Delta table: those of a store in the same place."""
    scheme, base, steps = _parse(root)
    if scheme != "s3":
        return {}
    return open_store(f"{scheme}://{base}").table("/".join(steps))[1]
