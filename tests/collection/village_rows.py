"""The tables of a village: files of days, their index, and a log in the form of Delta, written as ingest does it.

A source rewrites the day before: the rows of each day come twice, and are other ones the second time.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import date

from ratchet.contracts import paths, summaries
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.result import Artifact, PublishedResult
from ratchet.contracts.snapshot import Snapshot, SnapshotDay
from ratchet.contracts.snapshot_index import HeldDay, SnapshotIndex
from ratchet.store.base import Store
from ratchet.store.publishing import Transaction, find_result
from ratchet.store.renewal import renew
from ratchet.store.sealed import seal, unseal
from tasks.ingest.stored_days import file_key

DAY = paths.day_part("ingest")
_FIRST = (
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {
        "metaData": {
            "id": "00000000-0000-0000-0000-000000000000", "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": [
                {"name": "text", "type": "string", "nullable": True, "metadata": {}},
                {"name": "date", "type": "date", "nullable": True, "metadata": {}},
            ]}),
            "partitionColumns": ["date"], "configuration": {}, "createdTime": 0,
        }
    },
)  # fmt: skip


class Lost(Exception):
    """Rows of before that a run was to take are gone."""


class Tables:
    """One table of a pipeline."""

    def __init__(self, store: Store, pipeline: str, table: str) -> None:
        self.store, self.pipeline, self.table = store, pipeline, table
        self._files: dict[str, int] = {}
        """Those of the newest version, with their bytes; of so many commits."""
        self._number = 0

    def ingest(self, texts: Mapping[date, str], then: Mapping[date, SnapshotDay], attempt: str) -> PublishedResult:
        """A snapshot of these days. texts: the rows of each day in the source. then: days as an earlier run saw them."""
        of = str({day: then[day].file.sha256 if day in then else text for day, text in texts.items()})
        prefix = paths.published(self.pipeline, "ingest", digest(of.encode()))
        if (found := find_result(self.store, prefix)) is not None and renew(self.store, found):
            return found
        days = {day: self._old(then[day]) if day in then else self._day(day, texts[day], attempt) for day in texts}
        if not then:
            self._hold(days)
        snapshot = Snapshot(table=self.table, version=self._commit(days, is_now=not then), days=tuple(days.values()))
        made = Transaction(self.store, prefix, attempt)
        for day, one in days.items():
            made.refer(f"{day}.parquet", one.file)
        content = digest(of.encode())
        return made.commit(stage="ingest", fingerprint=content, parts={}, content=content, summary=snapshot)

    def check(self, named: list[Snapshot]) -> None:
        """The newest rows of each day are there, and all files of the newest version and of those that are named."""
        files = list(Tables(self.store, self.pipeline, self.table)._versions())
        if not files:
            return
        needed = {one.file.key for snapshot in named for one in snapshot.days}
        needed |= {held.day.file.key for held in self.index().days.values()}
        for version in {len(files) - 1, *(one.version for one in named)}:
            needed |= {f"{self.table}/{path}" for path in files[version]}
        assert needed <= self.files(), needed - self.files()

    def files(self) -> set[str]:
        """The files of days."""
        return {entry.key for entry in self.store.list(self.table) if entry.key.endswith(".parquet")}

    def index(self) -> SnapshotIndex:
        """What the table holds."""
        key = paths.snapshot_index(self.table)
        if self.store.head(key) is None:
            return SnapshotIndex()
        return unseal(self.store.read(key), SnapshotIndex, where=key, remedy="")

    def _day(self, day: date, text: str, attempt: str) -> SnapshotDay:
        prefix = paths.published(self.pipeline, DAY, digest(text.encode()))
        found = find_result(self.store, prefix)
        if found is None or not renew(self.store, found):
            data = self.rows(text)
            file = Artifact(key=file_key(self.table, day, digest(data)), sha256=digest(data), bytes=len(data), rows=1)
            entry = self.store.head(file.key)
            assert self.store.replace(file.key, data, expected=entry.etag if entry else None)
            made = Transaction(self.store, prefix, attempt)
            made.refer("rows.parquet", file)
            summary = SnapshotDay(day=day, file=file, source=digest(text.encode()))
            name = digest(text.encode())
            found = made.commit(stage=DAY, fingerprint=name, parts={}, content=file.sha256, summary=summary)
        return SnapshotDay.model_validate(found.result.summary)

    def rows(self, text: str) -> bytes:
        """The bytes of a file."""
        return text.encode()

    def _old(self, day: SnapshotDay) -> SnapshotDay:
        entry, held = self.store.head(day.file.key), self.index().days.get(day.day)
        if entry is None:
            raise Lost(day.file.key)
        if held is None or held.day.file != day.file:
            data = self.store.read(day.file.key)
            entry = self.store.head(day.file.key)
            assert self.store.replace(day.file.key, data, expected=entry.etag if entry else None)
        return day

    def _hold(self, days: Mapping[date, SnapshotDay]) -> None:
        key = paths.snapshot_index(self.table)
        entry, known = self.store.head(key), self.index().days
        new = {day: HeldDay(day=one, files=(), version=1) for day, one in days.items()}
        if {**known, **new} != known:
            data = seal(SnapshotIndex(days={**known, **new}))
            assert self.store.replace(key, data, expected=entry.etag if entry else None)

    def _commit(self, days: Mapping[date, SnapshotDay], *, is_now: bool) -> int:
        """As `commit` and `commit_past`, but that a version of the past is always a new one."""
        present = dict(self._present())
        wanted = {paths.day(day): one.file for day, one in days.items()}
        version = self._set(wanted)
        if not is_now:
            self._set({day: file for day, file in present.items() if day in wanted})
        return version

    def _set(self, wanted: Mapping[str, Artifact]) -> int:
        present = dict(self._present())
        changed = {day: file for day, file in wanted.items() if present.get(day) != file}
        actions: list[object] = [] if self._number else [*_FIRST]
        for day, file in changed.items():
            if day in present:
                path = present[day].key.removeprefix(f"{self.table}/")
                actions.append({"remove": {"path": path, "dataChange": True, "deletionTimestamp": 0}})
            path = file.key.removeprefix(f"{self.table}/")
            actions.append(
                {
                    "add": {
                        "path": path, "partitionValues": {"date": day}, "size": file.bytes, "modificationTime": 0,
                        "dataChange": True,
                    }
                }
            )  # fmt: skip
        if not actions:
            return self._number - 1
        data = "\n".join(map(json.dumps, actions)).encode()
        assert self.store.create(self._commit_key(), data)
        return self._number

    def _present(self) -> Iterator[tuple[str, Artifact]]:
        for _ in self._versions():
            pass
        for path, size in self._files.items():
            sha256 = paths.last(path).removesuffix(".parquet")
            artifact = Artifact(key=f"{self.table}/{path}", sha256=sha256, bytes=size, rows=1)
            yield path.split("/")[0].partition("=")[2], artifact

    def _commit_key(self) -> str:
        return f"{self.table}/_delta_log/{self._number:020d}.json"

    def _versions(self) -> Iterator[set[str]]:
        """The files of each version that was not read yet; without a list, which takes long in a large store."""
        while self.store.head(self._commit_key()) is not None:
            for line in map(json.loads, self.store.read(self._commit_key()).splitlines()):
                if "remove" in line:
                    del self._files[line["remove"]["path"]]
                elif "add" in line:
                    self._files[line["add"]["path"]] = line["add"]["size"]
            self._number += 1
            yield {*self._files}


def snapshot_of(found: PublishedResult) -> Snapshot:
    """The snapshot that an ingest has published."""
    return summaries.snapshot(found.result)
