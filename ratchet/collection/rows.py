"""The rows of days that newer rows have replaced: files of the tables that nothing names any more.

Of each day the newest rows stay; they go by `ratchet data expire`. Older ones stay while a result that stays, a run, a
version, or a version of the table that one of these names has them.

A change here violates the promise of the project when a file goes that one of these names, or the only rows of a day.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import filterfalse, groupby

from ratchet.collection.findings import Findings, Wholes
from ratchet.collection.named_rows import NamedRows
from ratchet.collection.table_log import listed_files
from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.pipeline import PARTITION
from ratchet.contracts.removal import Removal
from ratchet.contracts.snapshot_index import SnapshotIndex
from ratchet.store.base import Entry, Store
from ratchet.store.removals import successors
from ratchet.store.sealed import unseal

_ROWS, _OTHERS = "rows of days", "logs and indexes of tables"
_GONE = "newer rows of the day are there, and no run that is kept and no version names them"
_NEWEST, _ONLY = "the newest rows of the day", "no newer rows of the day are there"
_NO_INDEX = "the table has no index; a night makes it again"


@dataclass(frozen=True, kw_only=True)
class _Table:
    """rows: the files of its days. others: its log, and its index."""

    key: str
    rows: tuple[Entry, ...]
    others: tuple[Entry, ...]
    newest: Mapping[str, str] | None
    """By the folder of each day, the key of its newest rows; None without an index that can be read."""


class Rows:
    """The files of a pipeline's tables. removed: removals. before_ns: younger files stay, for the reason `young`."""

    def __init__(self, store: Store, pipeline: str, removed: Iterable[Removal], before_ns: float, young: str) -> None:
        self._store, self._before_ns, self._young = store, before_ns, young
        self._tables = [_read(store, key, entries) for key, entries in _by_table(store, pipeline)]
        self._after = {sha256: day.file.key for sha256, (day, _) in successors(removed).items()}
        self._stays: dict[str, str] = {}

    def unnamed(self, files: Mapping[str, str], *snapshots: NamedRows) -> frozenset[str]:
        """The keys of the files that go. files, snapshots: what names the others, each with why that stays."""
        named = dict(files)
        for one in snapshots:
            named = {**one.files, **named}
        # What is left of purged rows is what a reader of these takes.
        named |= {self._after[sha256]: why for key, why in named.items() if (sha256 := _digest(key)) in self._after}
        return frozenset(key for table in self._tables for key in self._unnamed(table, named, snapshots))

    def _unnamed(self, table: _Table, named: Mapping[str, str], snapshots: Iterable[NamedRows]) -> Iterable[str]:
        newest = {} if table.newest is None else dict.fromkeys(table.newest.values(), _NEWEST)
        young = {one.key: self._young for one in table.rows if one.modified_ns > self._before_ns}
        known = {**young, **named, **newest}
        if any(one.key not in known for one in table.rows):
            versions = {version: why for one in snapshots for version, why in one.versions_of(table.key).items()}
            known = {**listed_files(self._store, table.key, versions), **known}
        there = {one.key for one in table.rows}
        for one in table.rows:
            if one.key in known:
                self._stays[one.key] = known[one.key]
            elif table.newest is None:
                self._stays[one.key] = _NO_INDEX
            elif table.newest.get(_folder(one.key)) not in there:
                self._stays[one.key] = _ONLY
            else:
                yield one.key

    def count(self, gone: frozenset[str], found: Findings) -> None:
        """Add what goes, behind the manifests that name it, and what stays."""
        for table in self._tables:
            found.keep(_OTHERS, "they say what the rows are", table.others)
            for one in table.rows:
                if one.key in gone:
                    found.parts.append(Wholes(_ROWS, _GONE, one, ()))
                else:
                    found.keep(_ROWS, self._stays[one.key], [one])


def _by_table(store: Store, pipeline: str) -> Iterable[tuple[str, list[Entry]]]:
    listed = sorted(store.list(paths.table(pipeline)), key=_table_of)
    return ((key, list(group)) for key, group in groupby(listed, key=_table_of))


def _table_of(entry: Entry) -> str:
    """The key of a table, of one of its files or of its index."""
    return "/".join(entry.key.split("/")[:3]).removesuffix(".json")


def _read(store: Store, key: str, entries: list[Entry]) -> _Table:
    rows = tuple(filter(_has_rows, entries))
    others = tuple(filterfalse(_has_rows, entries))
    return _Table(key=key, rows=rows, others=others, newest=_newest(store, paths.snapshot_index(key)))


def _has_rows(entry: Entry) -> bool:
    return f"/{PARTITION}=" in entry.key and entry.key.endswith(".parquet")


def _newest(store: Store, index: str) -> dict[str, str] | None:
    try:
        days = unseal(store.read(index), SnapshotIndex, where=f"{store.uri}/{index}", remedy="run again").days.values()
    except (CorruptArtifact, FileNotFoundError):
        return None
    return {_folder(held.day.file.key): held.day.file.key for held in days}


def _folder(key: str) -> str:
    return key.rpartition("/")[0]


def _digest(key: str) -> str:
    return paths.last(key).removesuffix(".parquet")
