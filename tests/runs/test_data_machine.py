"""Whatever happens to the data of a pipeline, no refused day is used, and a named snapshot reads the same bytes.

Days arrive good and bad, are corrected, get late rows, are let in, and vanish from the source; releases come, and runs
are killed. A key is purged, and then nothing in the store names it; old days expire. Purges are killed too. Each night runs ingest and validate as they are, with plans and records as a run has them.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from ratchet.contracts import data_versions, dates, paths, summaries
from ratchet.contracts.checks import SWITCHES
from ratchet.contracts.errors import DataRejected, NoAnswer
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import AsOf, Outcome
from ratchet.contracts.snapshot import Snapshot
from ratchet.runs.day_records import admit
from ratchet.runs.outcomes import outcome_of
from ratchet.runs.stage_record import StageRecord
from ratchet.store.file import FileStore
from ratchet.store.removals import in_its_place, removals, successors
from tasks.ingest import window as ingest_window
from tasks.keeping.expire import expire
from tasks.keeping.files import table_files
from tasks.keeping.purge import purge
from tests.runs.test_day_records import plan
from tests.world import LAST, SPEC, World, clicks, rows

WINDOW = 4
KEY = "ada@example.org"
COLUMNS = {**SPEC["columns"], "user": {"role": "categorical", "type": "string"}}
DAYS = [LAST - timedelta(days=back) for back in range(6, -1, -1)]
EXAMPLES = int(os.environ.get("RATCHET_STEPS", "100")) // 20
any_day = st.sampled_from(DAYS)


class Content(NamedTuple):
    """The rows of a day: those of a day, some of them, and late ones. A day with the rows of another one is bad."""

    of: date
    count: int
    late: int


class Killed(BaseException):
    """The process ends here."""


def users(count: int, day: date) -> dict[str, list[Any]]:
    """The rows of a day, four of them of KEY."""
    return {**rows(count, day), "user": [KEY if 4 <= i < 8 else f"user-{i}" for i in range(count)]}


@contextmanager
def killed_after(calls: int | None) -> Iterator[None]:
    """The process ends at its `calls`-th write to the store; None for never."""
    left = [calls or 0]

    def dies(write: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            if "leases" not in str(given[-1]) and "leases" not in str(given[1]):
                left[0] -= 1
                if left[0] == 0:
                    raise Killed
            return write(*given, **named)

        return call

    with ExitStack() as patches:
        if calls is not None:
            for name in ("create", "replace", "upload", "delete"):
                patches.enter_context(patch.object(FileStore, name, dies(getattr(FileStore, name))))
        yield


class Data(RuleBasedStateMachine):
    """Model: what the source and the snapshot have of each day, what its newest own run found, and what was let in."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="ratchet-days-"))
        source = {"window_days": WINDOW, "missing_days": "skip"}
        self.world: World = clicks(self.folder, source=source, validate=dict.fromkeys(SWITCHES), columns=COLUMNS)
        (self.world.pipeline / "pipeline.yaml").write_text("name: clicks\n", encoding="utf-8")
        self.source: dict[date, Content] = {}
        self.held: dict[date, Content] = {}
        self.published: dict[date, Content] = {}
        self.has_index = False
        self.newest: dict[date, tuple[Content, bool]] = {}
        self.verdicts: dict[tuple[date, Content], bool] = {}
        self.let_in: dict[date, Content] = {}
        self.named: list[Snapshot] = []
        self.first: dict[date, tuple[Snapshot, dict[date, Content]]] = {}
        self.purged = False
        self.expired: set[str] = set()
        self.version = patch.object(data_versions, "ROWS", data_versions.ROWS)
        self.version.start()
        for day in DAYS[:WINDOW]:
            self.deliver(day, of=day, count=8)

    def teardown(self) -> None:
        self.version.stop()
        shutil.rmtree(self.folder)

    @rule(day=any_day, of=any_day, count=st.integers(8, 10))
    def deliver(self, day: date, of: date, count: int) -> None:
        """A day arrives, or arrives again. One with the rows of another day is a bad one."""
        shutil.rmtree(self.world.source / f"date={day}", ignore_errors=True)
        self.world.put(day, users(count, of))
        self.source[day] = Content(of, count, 0)

    @rule(day=any_day)
    def late_rows(self, day: date) -> None:
        if (found := self.source.get(day)) is not None and not found.late:
            self.world.put(day, users(3, found.of), name="part-1.parquet")
            self.source[day] = found._replace(late=3)

    @rule(day=any_day)
    def vanish(self, day: date) -> None:
        """The source keeps the day no longer."""
        shutil.rmtree(self.world.source / f"date={day}", ignore_errors=True)
        self.source.pop(day, None)

    @rule()
    def upgrade(self) -> None:
        data_versions.ROWS += 1

    @rule()
    def lose_the_index(self) -> None:
        for entry in list(self.world.store.list("tables")):
            if entry.key.endswith(".json") and "_delta_log" not in entry.key:
                self.world.store.delete(entry.key)
        self.held, self.has_index = {**self.published}, False

    @rule(day=any_day)
    def override(self, day: date) -> None:
        content, accepted = self.newest.get(day, (None, True))
        if content is not None and not accepted:
            admit(self.world.store, "clicks", day, by="Ada", because="the rows are right")
            self.let_in[day] = content
            self.verdicts[day, content] = True

    @rule(calls=st.none() | st.integers(1, 60))
    def purge(self, calls: int | None) -> None:
        """A key is purged; with `calls`, the first try is killed after so many writes, and no stage starts then."""
        if not any(self.world.store.list(paths.runs("clicks"))):
            return
        given = {"column": "user", "values": [KEY], "by": "Ada", "because": "a request", "do": True}
        try:
            with killed_after(calls):
                purge(self.world.store, "clicks", **given)
        except Killed:
            if any(one.ended is None for one in removals(self.world.store, "clicks")):
                with pytest.raises(NoAnswer, match="has begun and not ended"):
                    self._ingest(DAYS[-1], "now")
            purge(self.world.store, "clicks", **given)
        self.purged = True
        self._search()

    @precondition(lambda self: self.has_index and self.held)
    @rule(calls=st.none() | st.integers(1, 20))
    def expire(self, calls: int | None) -> None:
        before = max(self.held) - timedelta(days=WINDOW - 1)
        files = {file.sha256 for file in table_files(self.world.store, "clicks") if file.day < before}
        given = {"by": "Ada", "because": "policy", "do": True}
        try:
            with killed_after(calls):
                expire(self.world.store, "clicks", WINDOW, **given)
        except Killed:
            expire(self.world.store, "clicks", WINDOW, **given)
        self.expired |= files
        self.held = {day: content for day, content in self.held.items() if day >= before}
        self.published = {day: content for day, content in self.published.items() if day >= before}
        assert not any(file.day < before for file in table_files(self.world.store, "clicks"))

    @rule(day=any_day)
    def killed_night(self, day: date) -> None:
        """Killed after the table has the days, before the index has them."""
        with patch.object(ingest_window, "hold", side_effect=Killed):
            try:
                self._ingest(day, "now")
            except Killed:
                self.published |= {one: self.source[one] for one in self._window(day) if one in self.source}
                self.held = self.held if self.has_index else {**self.published}
            except DataRejected:
                assert day not in self.source
        self._end()

    @rule(day=any_day)
    def night(self, day: date) -> None:
        try:
            snapshot = self._ingest(day, "now")
        except DataRejected:
            self._end()
            assert day not in self.source
            return
        seen = {one: content for one in self._window(day) if (content := self._content(one)) is not None}
        assert [one.day for one in snapshot.days] == sorted(seen)
        assert set(snapshot.held) == {one for one in seen if one not in self.source}
        self.held, self.has_index = self.held | seen, True
        self.published |= {one: content for one, content in seen.items() if one in self.source}
        copy = [one for one, content in seen.items() if content == seen[day] and one != day]
        out = {one for one in seen if one != day and self._is_out(one, seen[one])}
        excluded = self._validate(day)
        self._end()
        if self.purged:
            self._search()
        if copy:
            assert excluded is None
            self._record(day, seen[day], accepted=False)
        elif 2 * len(out) > len(seen):
            assert excluded is None
        else:
            assert excluded == out
            self._record(day, seen[day], accepted=True)
            self.first.setdefault(day, (snapshot, seen))

    @precondition(lambda self: self.first)
    @rule(data=st.data())
    def night_of_then(self, data: st.DataObject) -> None:
        day = data.draw(st.sampled_from(sorted(self.first)))
        snapshot, seen = self.first[day]
        known = successors(removals(self.world.store, "clicks"))
        days = tuple(in_its_place(day, known) for day in snapshot.days)
        try:
            assert self._ingest(day, "then").days == days
        except DataRejected:
            assert {one.file.sha256 for one in days} & self.expired
            return
        finally:
            self._end()
        try:
            published = self.world.run("validate", day, {"ingest": self.ingested})
        except DataRejected:
            return
        out = {one for one in seen if one != day and self._is_out(one, seen[one])}
        assert {*summaries.validation(published.result).excluded} == out

    @precondition(lambda self: self.named)
    @rule(data=st.data())
    def read_a_named_snapshot(self, data: st.DataObject) -> None:
        snapshot = data.draw(st.sampled_from(self.named))
        uri, options = self.world.store.table(snapshot.table)
        files = DeltaTable(uri, version=snapshot.version, storage_options=options).file_uris()
        known = successors(removals(self.world.store, "clicks"))
        for day in snapshot.days:
            now = in_its_place(day, known)
            if now.file.sha256 in self.expired and self.world.store.head(now.file.key) is None:
                continue
            assert digest(self.world.store.read(now.file.key)) == now.file.sha256
            assert now == day or self.world.store.head(day.file.key) is None
            assert any(uri.endswith(f"{day.file.sha256}.parquet") for uri in files)

    def _search(self) -> None:
        """Nothing in the store has the key: neither as bytes, nor in what Parquet compresses, nor as the id in arrays."""
        root = self.folder / "store"
        for path in filter(Path.is_file, root.rglob("*")):
            assert KEY.encode() not in path.read_bytes(), path
            if path.suffix == ".parquet":
                assert KEY not in pq.read_table(path).column("user").to_pylist(), path

    def _end(self) -> None:
        """The run of a night has ended, whatever came of it."""
        outcome = Outcome(stage="report", state="done").model_dump_json(by_alias=True).encode()
        self.world.store.create(paths.outcome("clicks", self.planned.run_id, "report"), outcome)

    def _content(self, day: date) -> Content | None:
        return self.source.get(day) or self.held.get(day)

    def _window(self, day: date) -> Iterator[date]:
        return iter(dates.window(day, WINDOW))

    def _record(self, day: date, content: Content, *, accepted: bool) -> None:
        self.newest[day] = content, accepted
        self.verdicts[day, content] = accepted

    def _is_out(self, day: date, content: Content) -> bool:
        """Whether the newest run of the day refused it, or any run these rows, and nobody let these rows in since."""
        _, accepted = self.newest.get(day, (content, True))
        if not accepted:
            return self.let_in.get(day) != content
        return not self.verdicts.get((day, content), True)

    def _ingest(self, day: date, as_of: AsOf) -> Snapshot:
        self.planned = plan(self.world, day, as_of=as_of)
        self.world.run_id, self.world.days, self.world.as_of = self.planned.run_id, self.planned.days, as_of
        self.ingested = self.world.run("ingest", day, planned=(self.planned.source_root, self.planned.source))
        snapshot = summaries.snapshot(self.ingested.result)
        self.named.append(snapshot)
        return snapshot

    def _validate(self, day: date) -> set[date] | None:
        """The days that validate left out; None if it stopped the run."""
        try:
            with StageRecord(self.world.store, self.planned, "validate") as record:
                published = self.world.run("validate", day, {"ingest": self.ingested})
                record.end(outcome_of(published, cached=False, because=""))
        except DataRejected:
            return None
        judged = Outcome(stage="evaluate", state="done")
        key = paths.outcome("clicks", self.planned.run_id, "evaluate")
        self.world.store.create(key, judged.model_dump_json(by_alias=True).encode())
        return {*summaries.validation(published.result).excluded}


TestData = Data.TestCase
TestData.settings = settings(max_examples=EXAMPLES, stateful_step_count=20, deadline=None)
