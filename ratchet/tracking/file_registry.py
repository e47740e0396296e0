"""The registry in MLflow's SQLite file, read and written without MLflow, whose import takes seconds.

Only a file whose tables have the columns that this module knows is used; for any other, `open_file` says so, and the
client is used, which knows every release and migrates. SQLite's own locks keep the writers of one file apart.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ratchet.contracts.errors import Unavailable
from ratchet.tracking.addresses import is_locked, locked
from ratchet.tracking.registry import CHAMPION, DIGEST, LEDGER, Version

_BUSY_S = 30.0
_COLUMNS: Mapping[str, frozenset[str]] = {
    "model_versions": frozenset({"workspace", "name", "version", "current_stage"}),
    "model_version_tags": frozenset({"workspace", "name", "version", "key", "value"}),
    "registered_model_aliases": frozenset({"workspace", "name", "alias", "version"}),
}
_VERSION = "select 1 from model_versions where workspace = ? and name = ? and version = ? and current_stage != ?"
_TAGGED = "select version from model_version_tags where workspace = ? and name = ? and key = ?"
_MARK = "insert or replace into model_version_tags (workspace, name, version, key, value) values (?, ?, ?, ?, ?)"
_TAGS = "select key, value from model_version_tags where workspace = ? and name = ? and version = ?"
_DELETED = "Deleted_Internal"
_WORKSPACE = "default"


class FileRegistry:
    """See Registry."""

    def __init__(self, database: sqlite3.Connection, address: str) -> None:
        self.address = address
        self._database = database

    def champion(self, model: str) -> Version | None:
        """See Registry."""
        found = self._rows(
            "select version from registered_model_aliases where workspace = ? and name = ? and alias = ?",
            (_WORKSPACE, model, CHAMPION),
        )
        return self.version(model, found[0][0]) if found else None

    def find(self, model: str, digest: str) -> tuple[Version, ...]:
        """See Registry."""
        return self._tagged(model, DIGEST, "value = ?", digest)

    def recorded(self, model: str) -> tuple[Version, ...]:
        """See Registry."""
        return tuple(version for version in self._tagged(model, LEDGER, "value != ?", "0") if version.record)

    def version(self, model: str, number: str) -> Version | None:
        """See Registry."""
        key = (_WORKSPACE, model, str(number))
        if not self._rows(_VERSION, (*key, _DELETED)):
            return None
        return Version(number=str(number), tags={row[0]: row[1] for row in self._rows(_TAGS, key)})

    def mark(self, model: str, version: Version, record: int) -> None:
        """See Registry."""
        with self._database:
            self._database.execute(_MARK, (_WORKSPACE, model, int(version.number), LEDGER, str(record)))

    def point(self, model: str, version: Version, record: int) -> None:
        """See Registry."""
        with self._database:
            self._database.execute(_MARK, (_WORKSPACE, model, int(version.number), LEDGER, str(record)))
            self._database.execute(
                "insert or replace into registered_model_aliases (workspace, name, alias, version) values (?, ?, ?, ?)",
                (_WORKSPACE, model, CHAMPION, int(version.number)),
            )

    def _tagged(self, model: str, key: str, condition: str, value: str) -> tuple[Version, ...]:
        question = f"{_TAGGED} and {condition} order by version"
        found = self._rows(question, (_WORKSPACE, model, key, value))
        versions = (self.version(model, number) for (number,) in found)
        return tuple(version for version in versions if version is not None)

    def _rows(self, question: str, values: tuple[str, ...]) -> list[tuple[str, ...]]:
        return self._database.execute(question, values).fetchall()


@contextmanager
def open_file(path: Path, address: str) -> Iterator[FileRegistry | None]:
    """The registry in a file, or None if its tables are not those that this module knows.

    Raises NoAnswer if another writer keeps it locked, Unavailable if it is no database.
    """
    database = sqlite3.connect(path, timeout=_BUSY_S)
    try:
        yield FileRegistry(database, address) if _is_known(database) else None
    except sqlite3.Error as error:
        if is_locked(error):
            raise locked(address) from error
        raise Unavailable(
            f"MLflow's database {address} cannot be used: {error}",
            remedy="free space on its disk, or restore it from a backup; run again",
        ) from error
    finally:
        database.close()


def _is_known(database: sqlite3.Connection) -> bool:
    return all(
        columns <= {row[1] for row in database.execute(f"pragma table_info({table})")}
        for table, columns in _COLUMNS.items()
    )
