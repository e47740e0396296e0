"""The snapshot table: a Delta Lake table with one immutable Parquet file for each day."""

import json
import random
import time
from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction

from ratchet.contracts import paths
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.pipeline import PARTITION
from ratchet.contracts.result import Artifact
from ratchet.store.base import Store

_ATTEMPTS = 20
_LONGEST_WAIT_S = 1.0
_PROPERTIES = {
    # A registered model names a version: keep the whole log, and never remove a file that a version names.
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 36500 days",
    "delta.deletedFileRetentionDuration": "interval 36500 days",
}


class _TableFile(NamedTuple):
    """A file of the table. path: below the table's folder."""

    path: str
    bytes: int
    rows: int | None


def file_key(table: str, day: date, sha256: str) -> str:
    """The key of a day's file."""
    return f"{table}/{_partition(day)}/{sha256}.parquet"


def commit(store: Store, table: str, schema: Any, files: Mapping[date, Artifact]) -> int:
    """Set the files of these days in one commit. Returns the version of the table with exactly these files.

    Does not change days that have their file already, nor other days; without a change there is no commit. Each of
    several concurrent writers sees the commit before its own. Raises Unavailable after many conflicts.
    """
    return _commit(store, table, schema, {day: _file(day, file) for day, file in files.items()})


def commit_past(store: Store, table: str, schema: Any, files: Mapping[date, Artifact]) -> int:
    """The version of the table with exactly these files of the past. What the newest version holds does not change.

    An older version that has them is named as it is. If there is none, one commit sets them and the next one restores
    the present files. Days that the table does not hold yet are added. Raises Unavailable after many conflicts.
    """
    uri, options = store.table(table)
    opened = _open(uri, options, schema)
    present = _current_files(opened)
    wanted = {day: _file(day, file) for day, file in files.items()}
    replaced = {day: held for day, held in present.items() if day in wanted and wanted[day].path not in held}
    if not replaced:
        return commit(store, table, schema, files)
    for version in range(opened.version() - 1, -1, -1):
        held = _current_files(DeltaTable(uri, version=version, storage_options=options))
        if all(added.path in held.get(day, {}) for day, added in wanted.items()):
            return version
    past = _commit(store, table, schema, wanted)
    _commit(store, table, schema, {day: held for day, files in replaced.items() for held in files.values()})
    return past


def _commit(store: Store, table: str, schema: Any, files: Mapping[date, _TableFile]) -> int:
    uri, options = store.table(table)
    lost: Exception | None = None
    for attempt in range(_ATTEMPTS):
        try:
            opened = _open(uri, options, schema)
            version = _replace(opened, files)
        except DeltaError as error:
            # Another writer was first: read its commit, after a random wait that separates the writers.
            lost = error
            time.sleep(random.uniform(0, min(_LONGEST_WAIT_S, 0.01 * 2**attempt)))
        else:
            store.adopt(f"{table}/_delta_log")
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


def _replace(table: DeltaTable, files: Mapping[date, _TableFile]) -> int:
    """One attempt to commit. Raises DeltaError if the table has changed since it was opened."""
    current = _current_files(table)
    now_ms = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = []
    for day, file in sorted(files.items()):
        held, values = current.get(day, {}), {PARTITION: paths.day(day)}
        others = [old for path, old in held.items() if path != file.path]
        actions += [RemoveAction(old.path, True, now_ms, old.bytes, values) for old in others]  # noqa: FBT003 - data_change
        if file.path not in held:
            stats = json.dumps({"numRecords": file.rows})
            actions.append(AddAction(file.path, file.bytes, values, now_ms, True, stats))  # noqa: FBT003 - data_change
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


def _current_files(table: DeltaTable) -> dict[date, dict[str, _TableFile]]:
    """The table's files by day and path."""
    found: dict[date, dict[str, _TableFile]] = {}
    actions = table.get_add_actions(flatten=True)
    if actions.num_rows == 0:
        return found
    rows = actions.select(["path", "size_bytes", "num_records", f"partition.{PARTITION}"]).to_struct_array()
    for row in rows.to_pylist():
        path, size, records, day = row.values()
        found.setdefault(day, {})[path] = _TableFile(path, size, records)
    return found


def _file(day: date, file: Artifact) -> _TableFile:
    return _TableFile(f"{_partition(day)}/{file.sha256}.parquet", file.bytes, file.rows)


def _partition(day: date) -> str:
    return f"{PARTITION}={paths.day(day)}"
