"""Rows of days that newer rows have replaced go, and what Delta reads of the table stays readable."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from threading import Lock

import pytest
from deltalake import DeltaTable

from ratchet.collection.collector import Collected, Collector
from ratchet.collection.rows import Rows
from ratchet.collection.table_log import listed_files
from ratchet.contracts import paths, summaries
from ratchet.contracts.collection import Policy
from ratchet.contracts.errors import RatchetError, Unavailable
from ratchet.contracts.request import Outcome
from ratchet.contracts.snapshot import Snapshot
from ratchet.runs import past_rows
from ratchet.runs.history import plan_of
from ratchet.store.base import Store
from ratchet.store.memory import MemoryStore
from tests.collection.test_collect import nights
from tests.collection.test_gc import make_older
from tests.collection.village import FIRST, NAME, POLICY, Village
from tests.collection.village_rows import DAY
from tests.keeping.test_expire import DAYS, made, register
from tests.keeping.test_purge import do, users
from tests.runs.recorded import keep
from tests.runs.test_day_records import plan
from tests.world import World

ROWS = "rows of days"
AGED = Policy(results=10, runs=90, last=1, grace=2)


@pytest.fixture
def village() -> Iterator[Village]:
    with Village() as made:
        yield made


def of_rows(found: list[Collected]) -> dict[str, int]:
    """How many files of rows stay, by reason."""
    return {why: each.objects for one in found for (kind, why), each in one.stays.items() if kind == ROWS}


def gone(found: list[Collected]) -> int:
    return sum(each.objects for one in found for (kind, _), each in one.goes.items() if kind == ROWS)


def day_manifests(village: Village) -> int:
    return sum(1 for _ in village.store.list(paths.published(NAME, DAY)))


def test_replaced_rows_go_with_the_days_of_runs_and_the_newest_of_each_day_stay_for_ever(village: Village) -> None:
    nights(village, 40)
    assert len(village.tables.files()) == 81  # the two days before the first one came whole
    said = village.collect(apply=False)
    assert len(village.tables.files()) == 81
    found = village.collect()
    assert gone(found) == gone(said) == 31
    assert of_rows(found).keys() == {"the newest rows of the day", f"a run of the last {POLICY.results} days"}
    assert len(village.tables.files()) == day_manifests(village) == 50
    village.check()
    village.clock.days += 400
    village.night()
    village.collect()
    assert len(village.tables.files()) == day_manifests(village) == 45
    village.check()


def test_a_version_that_was_never_promoted_keeps_its_rows_and_its_version_of_the_table(village: Village) -> None:
    runs = nights(village, 6)
    village.register(runs[5])
    village.promote(runs[0])
    village.corrected.add(FIRST)  # a day that is in the version of the table, and in the window of no run since
    village.night(FIRST)
    nights(village, 40)
    found = village.collect()
    assert of_rows(found)["version 1 of small"] == 2
    assert of_rows(found)["the ledger of small names it"] == 1
    village.check()


def test_rows_stay_as_long_as_parts_of_days_that_were_made_of_them(village: Village) -> None:
    """A purge finds these by the rows."""
    nights(village, 5)
    village.clock.days += POLICY.results + 1
    found = village.collect()
    assert gone(found) == 0
    assert of_rows(found)["parts that were made of it stay"] == 3


def test_a_backfill_of_a_date_whose_rows_were_collected_takes_the_present_ones(village: Village) -> None:
    village.register(nights(village, 20)[1])
    village.collect()
    then = [plan_of(village.store, NAME, village.night(FIRST + timedelta(days=one), kind="backfill")) for one in (0, 1)]
    assert [one.as_of for one in then if one is not None] == ["now", "then"]
    village.check()


def test_rows_that_a_backfill_takes_in_the_moment_in_which_they_would_be_deleted_stay(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights(village, 20)
    runs = list[str]()

    def before(name: str, key: str) -> None:
        if name == "delete" and f"/date={FIRST}/" in key and not runs:
            runs.append("")
            runs[0] = village.night(FIRST, kind="backfill")

    with monkeypatch.context() as patched:
        patched.setattr(village.store, "before", before)
        found = village.collect()
    planned = plan_of(village.store, NAME, runs[0])
    assert planned is not None
    assert planned.as_of == "then"
    assert gone(found) == 10
    village.check()
    assert gone(village.collect()) == 0


@pytest.mark.parametrize("of", ["missing", "damaged"])
def test_where_the_log_cannot_be_read_nothing_goes(village: Village, of: str) -> None:
    nights(village, 40)
    key = f"{village.tables.table}/_delta_log/{3:020d}.json"
    village.store.delete(key)
    if of == "damaged":
        village.store.create(key, b'{"add": 1}\n')
    before = [entry.key for entry in village.store.list()]
    (found, _) = village.collect()
    assert [entry.key for entry in village.store.list()] == before
    said = "version 3 is missing" if of == "missing" else f"{paths.last(key)} is damaged"
    assert f"{village.tables.table}/_delta_log cannot be read: {said}; to do: restore" in found.unchecked


def test_of_a_table_without_an_index_and_of_a_day_without_its_newest_rows_nothing_goes(village: Village) -> None:
    nights(village, 40)
    village.store.delete(village.tables.index().days[FIRST + timedelta(days=4)].day.file.key)
    found = village.collect()
    assert of_rows(found)["no newer rows of the day are there"] == 1
    with Village() as other:
        nights(other, 40)
        other.store.delete(paths.snapshot_index(other.tables.table))
        found = other.collect()
        assert gone(found) == 0
        assert of_rows(found)["the table has no index; a night makes it again"] == 31


def night(world: World, day: date) -> Snapshot:
    """A run of a date that came to a verdict. The source has rewritten the two days before."""
    for back in (1, 2):
        world.put(day - timedelta(days=back), users(20 + back + day.day, day - timedelta(days=back)))
    return again(world, day)


@contextmanager
def meanwhile(store: Store, act: Callable[[], object]) -> Iterator[list[RatchetError | None]]:
    """Something happens before the first deletion of a collection. Gets what it raises, or None."""
    before, ended, first = store.delete, list[RatchetError | None](), Lock()

    def delete(key: str, *, expected: str | None = None, written_ns: int | None = None) -> bool:
        with first:
            if not ended and not key.startswith(paths.leases("clicks")):
                ended.append(None)
                try:
                    act()
                except RatchetError as error:
                    ended[0] = error
        return before(key, expected=expected, written_ns=written_ns)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "delete", delete)
        yield ended


def again(world: World, day: date) -> Snapshot:
    """A run of a date that came to a verdict."""
    planned = plan(world, day)
    world.run_id = planned.run_id
    found = world.run("ingest", day, planned=(planned.source_root, planned.source))
    keep(world.store, planned, Outcome(stage="evaluate", state="done"))
    return summaries.snapshot(found.result)


def test_delta_reads_the_newest_version_and_each_that_is_named_and_the_next_night_reads_no_old_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_rows, "_WAIT_S", 0.0)
    world = made(tmp_path)
    snapshots = [night(world, day) for day in DAYS[2:5]]
    register(world, "1", snapshots[1])
    make_older(tmp_path / "store", 60)
    newest = night(world, DAYS[5])
    folder = tmp_path / "store" / newest.table
    before = DeltaTable(folder).to_pyarrow_table()
    files = {*folder.rglob("date=*/*.parquet")}
    with meanwhile(world.store, lambda: plan(world, DAYS[2], as_of="then")) as errors:
        found = Collector(world.store, None, AGED, apply=True).collect()
    (error,) = errors
    assert isinstance(error, Unavailable)
    assert re.fullmatch(r"removal-\w+ by ratchet gc holds the rows of clicks, and this run takes .*", error.cause)
    assert gone(found) == len(files - {*folder.rglob("date=*/*.parquet")}) == 4
    assert DeltaTable(folder).to_pyarrow_table() == before
    for snapshot in (snapshots[1], newest):
        table = DeltaTable(folder, version=snapshot.version)
        assert table.to_pyarrow_table().num_rows >= snapshot.rows
        paths_of = {f"{newest.table}/{one}" for one in table.get_add_actions(flatten=True)["path"].to_pylist()}
        assert paths_of <= listed_files(world.store, newest.table, {snapshot.version: "it is named"}).keys()
    with pytest.raises(OSError, match=r"\.parquet"):
        DeltaTable(folder, version=snapshots[0].version).to_pyarrow_table()
    assert [plan(world, DAYS[at], as_of="then").as_of for at in (2, 3)] == ["now", "then"]
    world.log.truncate(0)
    assert again(world, DAYS[5]).days == newest.days
    assert "3 days of the window are held as the source has them" in world.log.getvalue()
    assert do(world.store).done
    make_older(tmp_path / "store", 60)
    again(world, DAYS[5])
    assert gone(Collector(world.store, None, AGED, apply=True).collect()) == 0


def test_the_time_to_read_a_table_grows_with_its_files_and_no_faster() -> None:
    store = MemoryStore("many")
    for number in range(20_000):
        store.create(f"tables/{NAME}/one/date=2026-01-{number % 28 + 1:02d}/{number:064d}.parquet", b"")
        store.create(f"tables/{NAME}/one/_delta_log/{number:020d}.json", b"")
    began = time.process_time()
    assert Rows(store, NAME, (), 0, "young").unnamed({}) == frozenset()
    assert time.process_time() - began < 10  # each file compared with each other one takes minutes
