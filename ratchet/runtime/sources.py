"""The contents of a source by day, without reading a row. Planning uses it, so it imports no heavy library.

The identity of a day decides whether ingest reads it again:
- files: each file's name, size and ETag (S3) or modification time.
- delta: the table's files of that day if the table is partitioned by the day, else the table's version.
- sql: the query and the date, and the bounds of the day if the query has :start and :end. A database does not report
  whether rows have changed, so ingest reads a day once, when it is first in a window; `rebuild` reads it again, and so
  does another answer to source.changed. A nightly run thus reads only the new day.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, datetime
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from ratchet.contracts import paths
from ratchet.contracts.csv_format import CsvFormat
from ratchet.contracts.day_pattern import day_folder, day_pattern, fill, varies
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.request import SourceDay, SourceFile
from ratchet.contracts.source import DeltaSource, FilesSource, Source, SqlSource
from ratchet.contracts.source_uri import join, parse
from ratchet.contracts.sql_parameters import BOUNDS, parameters
from ratchet.contracts.time_zones import day_bounds
from ratchet.runtime.delta_listing import delta_days, table_uri
from ratchet.runtime.readiness import ListedDay, listed_day
from ratchet.runtime.source_reach import check_roots
from ratchet.runtime.source_variables import expand
from ratchet.store.base import Entry, Store
from ratchet.store.opening import open_store

_PARALLEL_LISTINGS = 8
_NO_CSV = re.compile(r"\.(parquet|json|jsonl|ndjson)(\.\w+)?$", re.IGNORECASE)
"""The names of files that are no CSV, packed or not."""
DayBounds = Callable[[date], tuple[datetime, datetime]]
_UTC_DAYS: DayBounds = partial(day_bounds, timezone="UTC", starts="00:00")


def list_days(source: Source, days: Sequence[date], bounds: DayBounds = _UTC_DAYS) -> tuple[str, tuple[SourceDay, ...]]:
    """The URI of a source's root, and the files of each day; a day without files is missing.

    bounds: the first moment of a day and that of the next one, see PipelineSpec.day_bounds.

    For sql the URI is that of the pipeline file without the values of ${NAME}, which may contain a password. Raises
    ConfigurationError (a variable that is not allowed or not set, a root that does not exist or is outside of what the
    operator allows, `..`) and Unavailable.
    """
    if isinstance(source, SqlSource):
        expand(source.uri, secret=True)
        return source.uri, tuple(SourceDay(day=day, files=(_query(source, day, bounds(day)),)) for day in days)
    uri = expand(source.uri)
    if isinstance(source, DeltaSource):
        root = table_uri(uri)
        check_roots(root)
        return root, delta_days(root, source.date_column, days, source.version)
    root, pattern = split(uri)
    check_roots(root)
    return root, _file_days(source, root, pattern, days)


def split(uri: str) -> tuple[str, str]:
    """Split a files URI into the root that all days share, and the pattern of a day's files below it.

    `/data/clicks/date={date}/*.parquet` -> (`file:///data/clicks`, `date={date}/*.parquet`).
    """
    try:
        scheme, base, steps = parse(day_pattern(uri))
    except ValueError as error:
        raise ConfigurationError(f"source.uri: {uri!r}: {error}", remedy="correct source.uri") from None
    varying = next((i for i, step in enumerate(steps) if varies(step) or "*" in step or "?" in step), len(steps))
    if varies(base) or not any(map(varies, steps)):
        raise ConfigurationError(
            f"source.uri: {uri!r} has no place for the day", remedy="put {date} into the path, below the bucket"
        )
    return join(scheme, base, steps[:varying]), "/".join(steps[varying:])


def open_root(root: str) -> Store:
    """Open the store of a files source. Raises ConfigurationError if its folder does not exist, or may not be read."""
    if root.startswith("file://") and not _is_folder(Path(unquote(root.removeprefix("file://")))):
        raise ConfigurationError(
            f"source.uri: the folder {unquote(root.removeprefix('file://'))} does not exist",
            remedy="check source.uri and its variables, and that the data are mounted here",
        )
    return open_store(root)


def _is_folder(path: Path) -> bool:
    with readable(path):
        return path.is_dir()


@contextmanager
def readable(what: str | Path) -> Iterator[None]:
    """Turn a missing right to read the source into a ConfigurationError that speaks of the source. what: of it."""
    try:
        yield
    except (OSError, ConfigurationError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, PermissionError):
            raise
        raise ConfigurationError(
            f"source.uri: {cause.filename or what}: {os.strerror(errno.EACCES)} (as user {os.geteuid()})",
            remedy="let this user read the source's folders and files",
        ) from error


def identity(source: FilesSource, root: str, entry: Entry) -> str:
    """The identity of a file, which changes with it: size and modification time of a local file, else the ETag.

    So it does where the pipeline file says otherwise how CSV files are written, if it may be one.
    """
    own = f"{entry.bytes}-{entry.modified_ns}" if root.startswith("file://") else entry.etag
    said = csv_of(source, entry.key).model_dump(exclude_none=True)
    return f"{own} csv:{digest_of(said)}" if said else own


def csv_of(source: FilesSource, name: str) -> CsvFormat:
    """What the pipeline file says of the CSV in a file; nothing if its name says that it is Parquet or JSON."""
    return CsvFormat() if _NO_CSV.search(name) else source.csv


def _file_days(source: FilesSource, root: str, pattern: str, days: Sequence[date]) -> tuple[SourceDay, ...]:
    listed = _listed_days(source, root, pattern, days)
    return tuple(
        SourceDay(day=day, files=tuple(_file(source, root, entry) for entry in found.files) if not found.lack else ())
        for day, found in listed.items()
    )


def _listed_days(source: FilesSource, root: str, pattern: str, days: Sequence[date]) -> dict[date, ListedDay]:
    store = open_root(root)
    wanted = {day: fill(pattern, day) for day in days}
    # One listing for each folder above a day's first wildcard.
    folders = sorted({day_folder(text) for text in wanted.values()})
    with ThreadPoolExecutor(_PARALLEL_LISTINGS) as pool:
        listings = dict(zip(folders, pool.map(partial(_listing, store), folders), strict=True))
    keys = {folder: {entry.key for entry in listing} for folder, listing in listings.items()}
    found = {}
    for day, text in wanted.items():
        folder = day_folder(text)
        marker = f"{folder}/{fill(source.ready.marker, day)}".lstrip("/") if source.ready.marker else ""
        found[day] = listed_day(source.ready, [*_matching(listings[folder], text)], marker, keys[folder])
    return found


def listed(source: FilesSource, root: str, day: date) -> ListedDay:
    """The files of one day, and why they are not complete. root: as `list_days` gives it."""
    return _listed_days(source, root, split(expand(source.uri))[1], [day])[day]


def folder_of_day(source: FilesSource, root: str, day: date) -> str | None:
    """The folder that the pattern of a source names for a day, if it names a folder with files instead of files."""
    pattern = fill(split(expand(source.uri))[1], day)
    if "*" in pattern or "?" in pattern:
        return None
    store = open_root(root)
    return pattern if any(_listing(store, pattern)) else None


def _listing(store: Store, folder: str) -> list[Entry]:
    with readable(f"{store.uri}/{folder}"):
        return list(store.list(folder))


def _matching(listing: Iterable[Entry], pattern: str) -> Iterator[Entry]:
    # As in Spark and Hive, a leading wildcard does not match hidden files and markers such as _SUCCESS.
    steps = [re.escape(step).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") for step in pattern.split("/")]
    expression = re.compile("/".join(f"(?![._]){step}" if step.startswith("[^/]") else step for step in steps))
    return (entry for entry in listing if expression.fullmatch(entry.key))


def _file(source: FilesSource, root: str, entry: Entry) -> SourceFile:
    """A file as a plan and a snapshot name it. Both are UTF-8, and a name of a POSIX file system may be any bytes."""
    if (shown := os.fsencode(entry.key).decode("utf-8", "backslashreplace")) != entry.key:
        raise ConfigurationError(
            f"source.uri: {unquote(root.removeprefix('file://'))}/{shown}: the name of this file is not UTF-8",
            remedy="have it delivered under a name in UTF-8, such as one of ASCII letters alone",
        )
    return SourceFile(key=entry.key, bytes=entry.bytes, identity=identity(source, root, entry))


def _query(source: SqlSource, day: date, bounds: tuple[datetime, datetime]) -> SourceFile:
    # The URL as it is written in the file: a new password does not change the rows.
    moments = [moment.isoformat() for moment in bounds] if parameters(source.query) & BOUNDS else []
    identity_ = digest_of([source.uri, source.query, *moments])
    return SourceFile(key=f"query/{paths.day(day)}", bytes=0, identity=f"query:{identity_}")
