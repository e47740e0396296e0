"""The addresses of artifacts in MLflow's database, where both are in the store: they follow a store that has moved.

MLflow writes absolute addresses. A store that was renamed, copied or restored elsewhere has its artifacts in the same
place below it, so whatever stood before that place is replaced by where the store is now. Addresses of other places,
such as those of models that somebody else registered, stay.

A change here violates the promise of the project when an address comes to name other bytes than those of its model.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, NoAnswer, Unavailable

ARTIFACTS = f"{paths.TRACKING}/artifacts"
"""The key of the artifacts in a store."""
_COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("logged_models", "artifact_location"),
)


def rebase(database: Path, artifacts: str) -> int:
    """Let the addresses in a database begin with `artifacts`, the store's own, as a URI. How many were changed.

    Nobody else may write to the database meanwhile. A database without tables is left alone, and so is a file that is
    none: what opens it for its content names it. Raises ConfigurationError for one that has to be changed and cannot be
    written; NoAnswer for one that is locked, Unavailable for one whose bytes the disk does not give.
    """
    if not database.is_file() or not database.stat().st_size:
        return 0
    try:
        return _rebase(database, artifacts)
    except sqlite3.OperationalError as error:
        if is_locked(error):
            raise locked(str(database)) from error
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR:
            raise not_given(str(database)) from error
        raise ConfigurationError(
            f"{database}: {error}; its addresses are of another place, as the store was moved or copied",
            remedy="let this process write it, once; then it may be read-only",
        ) from error
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
            raise
        return 0


def is_locked(error: sqlite3.Error) -> bool:
    """Whether another process had the database for as long as this one waited."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def locked(address: str) -> NoAnswer:
    """The error for that: it passes, so it is waited for."""
    return NoAnswer(
        f"MLflow's database {address} is locked by another process",
        remedy="end what holds it, such as a backup; run again if no retry follows",
    )


def not_given(address: str) -> Unavailable:
    """The error for a database whose disk, or the host that it is on, did not give its bytes."""
    return Unavailable(
        f"MLflow's database {address} cannot be read now: disk I/O error",
        remedy="check the disk of the store, and the system's log; run again if no retry follows",
    )


def _rebase(database: Path, artifacts: str) -> int:
    mark = f"/{ARTIFACTS}/"
    changed = 0
    with closing(sqlite3.connect(database)) as connection, connection:
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, column in _COLUMNS:
            if table not in there:
                continue
            found = connection.execute(
                f"SELECT DISTINCT {column} FROM {table} WHERE instr({column}, ?) AND substr({column}, 1, ?) <> ?",  # noqa: S608 - both names are constants of this file
                (mark, len(artifacts) + 1, f"{artifacts}/"),
            ).fetchall()
            for (before,) in found:
                after = f"{artifacts}/{before.partition(mark)[2]}"
                update = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"  # noqa: S608 - the same
                changed += connection.execute(update, (after, before)).rowcount
    return changed
