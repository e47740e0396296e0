"""The snapshot table: a Delta Lake table with one immutable Parquet file for each day."""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from typing import Any

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, NoAnswer, Unavailable
from ratchet.contracts.pipeline import PARTITION
from ratchet.contracts.result import Artifact
from ratchet.runtime.delta_errors import is_of_the_way, one_line
from ratchet.store.base import Store
from tasks.ingest.stored_days import TableFile, file_digest, restorable, table_file

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
    commit. Each of several concurrent writers sees the commit before its own. Raises NoAnswer if the store is away, or
    after many conflicts, which end by themselves; CorruptArtifact if the table's log cannot be read.
    """
    return _commit(store, table, schema, {day: table_file(day, file) for day, file in files.items()}, on_repair)


def commit_past(
    store: Store,
    table: str,
    schema: Any,
    files: Mapping[date, Artifact],
    *,
    on_repair: Callable[[str], None] = lambda _: None,
) -> int:
    """The version of the table with exactly these files of the past. What the newest version holds does not change.

    An older version that has them is named as it is, if its other days are as they are now: `ratchet gc` deletes rows
    of versions that nothing names. If there is none, one commit sets them and the next one restores the present files.
    Days that the table does not hold yet are added. Repairs and raises as `commit` does.
    """
    uri, options = store.table(table)
    opened = _read(store, table, schema)
    with _answered(store, table):
        present = _current_files(opened)
    wanted = {day: table_file(day, file) for day, file in files.items()}
    replaced = {day: held for day, held in present.items() if day in wanted and wanted[day].path not in held}
    if not replaced:
        return commit(store, table, schema, files, on_repair=on_repair)
    for version in range(opened.version() - 1, -1, -1):
        with _answered(store, table):
            held = _current_files(DeltaTable(uri, version=version, storage_options=options))
        others_are_kept = all(held[day].keys() <= present.get(day, {}).keys() for day in held.keys() - wanted.keys())
        if others_are_kept and all(added.path in held.get(day, {}) for day, added in wanted.items()):
            return version
    past = _commit(store, table, schema, wanted, on_repair)
    restored = {day: held for day, files in replaced.items() for held in files.values()}
    _commit(store, table, schema, restored, on_repair)
    return past


def replace_files(store: Store, table: str, after: Mapping[str, TableFile | None]) -> None:
    """Let the newest version name other files: by the digest of each file what takes its place, None for nothing.

    Raises as `commit`.
    """
    uri, options = store.table(table)
    lost = Exception()
    for attempt in range(_ATTEMPTS):
        try:
            with _answered(store, table):
                opened = DeltaTable(uri, storage_options=options)
                current = _current_files(opened)
        except TableNotFoundError:  # a first run was killed before its commit
            return
        named = {
            day: {path: after.get(file_digest(path), file) for path, file in held.items()}
            for day, held in current.items()
        }
        wanted = {day: [file for file in files.values() if file is not None] for day, files in named.items()}
        changed = {day: files for day, files in wanted.items() if {one.path for one in files} != {*current[day]}}
        try:
            with _answered(store, table):
                _replace(opened, current, {day: files[0] if files else None for day, files in changed.items()})
        except DeltaError as error:
            lost = error
            _wait(attempt)
        else:
            store.adopt(f"{table}/_delta_log")
            return
    raise _refused(table, lost)


def _commit(
    store: Store, table: str, schema: Any, files: Mapping[date, TableFile], on_repair: Callable[[str], None]
) -> int:
    lost = Exception()
    for attempt in range(_ATTEMPTS):
        opened = _read(store, table, schema)
        try:
            with _answered(store, table):
                current = _current_files(opened)
            stored = restorable(store, table, current, set(files))
            with _answered(store, table):
                version = _replace(opened, current, {**stored, **files})
        except DeltaError as error:
            lost = error
            _wait(attempt)
        else:
            store.adopt(f"{table}/_delta_log")
            for day in stored:
                on_repair(f"{table}: the log named a file of {day} that does not exist; it names the stored one now")
            return version
    raise _refused(table, lost)


def _refused(table: str, lost: Exception) -> Unavailable:
    """The error for a table that took no commit. Only of a conflict is it known that it ends without a change."""
    kind = NoAnswer if isinstance(lost, CommitFailedError) else Unavailable
    return kind(
        f"the snapshot table {table} refused {_ATTEMPTS} commits: {one_line(lost)}", remedy="run fewer runs at once"
    )


def _wait(attempt: int) -> None:
    """Another writer was first: wait a random time, which separates the writers, before its commit is read."""
    time.sleep(random.uniform(0, min(_LONGEST_WAIT_S, 0.01 * 2**attempt)))


def _read(store: Store, table: str, schema: Any) -> DeltaTable:
    """The table, created if there is none. Raises CorruptArtifact if its log cannot be read, NoAnswer without one."""
    uri, options = store.table(table)
    for _ in range(_UNREADABLE):
        try:
            with _answered(store, table):
                return _open(uri, options, schema)
        except DeltaError:
            time.sleep(_LONGEST_WAIT_S)
    try:
        with _answered(store, table):
            return _open(uri, options, schema)
    except DeltaError as error:
        log = f"{table}/_delta_log"
        raise CorruptArtifact(
            f"{store.uri}/{log} cannot be read: {one_line(error)}",
            remedy=f"restore {log} from a backup, or move it away: the next run writes a new one, with its window's "
            "days and version numbers from 0",
        ) from error


@contextmanager
def _answered(store: Store, table: str) -> Iterator[None]:
    """Raise NoAnswer where the library had no answer of the store; what the store itself says of it comes first."""
    try:
        yield
    except (DeltaError, OSError) as error:
        if not is_of_the_way(error):
            raise
        store.head(f"{table}/_delta_log/_last_checkpoint")
        raise NoAnswer(f"{store.uri}/{table} does not answer: {one_line(error)}") from error


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


def _replace(
    table: DeltaTable, current: Mapping[date, Mapping[str, TableFile]], files: Mapping[date, TableFile | None]
) -> int:
    """One attempt to commit; None takes a day out. Raises DeltaError if the table has changed since it was opened."""
    now_ms = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = []
    for day, file in sorted(files.items(), key=lambda item: item[0]):
        held, values = current.get(day, {}), {PARTITION: paths.day(day)}
        others = [old for path, old in held.items() if file is None or path != file.path]
        actions += [RemoveAction(old.path, True, now_ms, old.bytes, values) for old in others]  # noqa: FBT003 - data_change
        if file is not None and file.path not in held:
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


def _current_files(table: DeltaTable) -> dict[date, dict[str, TableFile]]:
    """The table's files by day and path."""
    found: dict[date, dict[str, TableFile]] = {}
    actions = table.get_add_actions(flatten=True)
    if actions.num_rows == 0:
        return found
    rows = actions.select(["path", "size_bytes", "num_records", f"partition.{PARTITION}"]).to_struct_array()
    for row in rows.to_pylist():
        path, size, records, day = row.values()
        found.setdefault(day, {})[path] = TableFile(path, size, records)
    return found
