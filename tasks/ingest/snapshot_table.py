"""The snapshot table: a Delta Lake table with one immutable Parquet file for each day."""

import json
import random
import time
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, Unavailable
from ratchet.contracts.pipeline import PARTITION
from ratchet.contracts.result import Artifact
from ratchet.store.base import Store
from tasks.ingest.stored_days import partition, restorable

_ATTEMPTS = 20
_LONGEST_WAIT_S = 1.0
_UNREADABLE = 2
"""Attempts to open a table whose log cannot be read; another writer may be creating it."""
_PROPERTIES = {
    # A registered model names a version: keep the whole log, and never remove a file that a version names.
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 36500 days",
    "delta.deletedFileRetentionDuration": "interval 36500 days",
}


def commit(
    store: Store,
    table: str,
    schema: Any,
    files: Mapping[date, Artifact],
    *,
    on_repair: Callable[[str], None] = lambda _: None,
) -> int:
    """Set the files of these days in one commit. Returns the version of the table with exactly these files.

    Does not change days that have their file already, nor other days, unless the log names a file for them that does
    not exist: then the day gets the file that is stored for it, and on_repair a line. Without a change there is no
    commit. Each of several concurrent writers sees the commit before its own. Raises Unavailable after many conflicts,
    CorruptArtifact if the table's log cannot be read.
    """
    uri, options = store.table(table)
    lost: Exception | None = None
    for attempt in range(_ATTEMPTS):
        try:
            opened = _open(uri, options, schema)
        except DeltaError as error:
            if attempt >= _UNREADABLE:
                raise _unreadable(store, table, error) from error
            time.sleep(_LONGEST_WAIT_S)
            continue
        try:
            current = _current_files(opened)
            stored = restorable(store, table, current, set(files))
            version = _replace(opened, current, {**stored, **files})
        except DeltaError as error:
            # Another writer was first: read its commit, after a random wait that separates the writers.
            lost = error
            time.sleep(random.uniform(0, min(_LONGEST_WAIT_S, 0.01 * 2**attempt)))
        else:
            store.adopt(f"{table}/_delta_log")
            for day in stored:
                on_repair(f"{table}: the log named a file of {day} that does not exist; it names the stored one now")
            return version
    raise Unavailable(
        f"the snapshot table {table} refused {_ATTEMPTS} commits: {lost}", remedy="run fewer runs at once"
    )


def _open(uri: str, options: dict[str, str], schema: Any) -> DeltaTable:
    try:
        return DeltaTable(uri, storage_options=options)
    except TableNotFoundError:
        return DeltaTable.create(
            uri,
            schema=Schema.from_arrow(schema),
            mode="ignore",
            partition_by=[PARTITION],
            configuration=_PROPERTIES,
            storage_options=options,
            # Otherwise a second creation would follow that of a concurrent writer.
            commit_properties=CommitProperties(max_commit_retries=0),
        )


def _unreadable(store: Store, table: str, error: Exception) -> CorruptArtifact:
    log = f"{table}/_delta_log"
    return CorruptArtifact(
        f"{store.uri}/{log} cannot be read: {str(error).partition(chr(10))[0]:.200}",
        remedy=f"restore {log} from a backup, or move it away: the next run writes a new one, with its window's days "
        "and version numbers from 0",
    )


def _replace(table: DeltaTable, current: Mapping[date, Mapping[str, int]], files: Mapping[date, Artifact]) -> int:
    """One attempt to commit. Raises DeltaError if the table has changed since it was opened."""
    now_ms = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = []
    for day, file in sorted(files.items()):
        path = f"{partition(day)}/{file.sha256}.parquet"
        others = {old: size for old, size in current.get(day, {}).items() if old != path}
        actions += [RemoveAction(old, True, now_ms, size, {PARTITION: paths.day(day)}) for old, size in others.items()]  # noqa: FBT003 - data_change
        if path not in current.get(day, {}):
            stats = json.dumps({"numRecords": file.rows})
            actions.append(AddAction(path, file.bytes, {PARTITION: paths.day(day)}, now_ms, True, stats))  # noqa: FBT003 - data_change
    version: int = table.version()
    if not actions:
        return version
    table.create_write_transaction(
        actions,
        "append",
        table.schema(),
        [PARTITION],
        # No retries inside: they would not read the commit of the concurrent writer.
        commit_properties=CommitProperties(max_commit_retries=0),
    )
    return version + 1


def _current_files(table: DeltaTable) -> dict[date, dict[str, int]]:
    """The table's files by day: path to size in bytes."""
    found: dict[date, dict[str, int]] = {}
    actions = table.get_add_actions(flatten=True)
    if actions.num_rows == 0:
        return found
    rows = actions.select(["path", "size_bytes", f"partition.{PARTITION}"]).to_struct_array()
    for row in rows.to_pylist():
        path, size, day = row.values()
        found.setdefault(day, {})[path] = size
    return found
