"""The files of the snapshot table by day, and the days whose file the table's log has lost."""

from collections.abc import Collection, Mapping
from datetime import date
from io import BytesIO
from typing import NamedTuple

import pyarrow.parquet as pq

from ratchet.contracts import paths
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.pipeline import PARTITION
from ratchet.contracts.result import Artifact
from ratchet.store.base import Store


class TableFile(NamedTuple):
    """A file of the table. path: below the table's folder."""

    path: str
    bytes: int
    rows: int | None


def table_file(day: date, file: Artifact) -> TableFile:
    """The table's file of a day, for an artifact with its bytes."""
    return TableFile(f"{partition(day)}/{file.sha256}.parquet", file.bytes, file.rows)


def file_key(table: str, day: date, sha256: str) -> str:
    """The key of a day's file."""
    return f"{table}/{partition(day)}/{sha256}.parquet"


def file_digest(path: str) -> str:
    """The digest of a file of a day, which is its name."""
    return paths.last(path).removesuffix(".parquet")


def partition(day: date) -> str:
    """The name of a day's folder in the table."""
    return f"{PARTITION}={paths.day(day)}"


def restorable(
    store: Store, table: str, current: Mapping[date, Mapping[str, TableFile]], beside: Collection[date]
) -> dict[date, TableFile]:
    """The files to name again: of days whose file in the log does not exist, and for which one whole file is stored.

    current: the files by day and path, as the log has them. beside: days that get their file anyway.
    """
    stored = {entry.key for entry in store.list(table)}
    lost = [
        day
        for day, named in current.items()
        if day not in beside and any(f"{table}/{path}" not in stored for path in named)
    ]
    found = {}
    for day in lost:
        folder = f"{table}/{partition(day)}/"
        whole = list(filter(None, (_whole(store, key) for key in stored if key.startswith(folder))))
        if len(whole) == 1:
            found[day] = table_file(day, whole[0])
    return found


def _whole(store: Store, key: str) -> Artifact | None:
    """A file whose name is the digest of its bytes."""
    data = store.read(key)
    sha256 = digest(data)
    if paths.last(key) != f"{sha256}.parquet":
        return None
    rows = pq.read_metadata(BytesIO(data)).num_rows
    return Artifact(key=key, sha256=sha256, bytes=len(data), rows=rows)
