"""A past day is read from the snapshot: what the source has no more, or has otherwise now, is not lost."""

import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ratchet.contracts import dates, paths, summaries
from ratchet.contracts.errors import CorruptArtifact, DataRejected, SourceChanged
from ratchet.contracts.request import SourceDay
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.snapshot_index import SnapshotIndex
from ratchet.runtime.held_days import hold, read_index, source_days, table_of
from tasks.ingest.held import take_held
from tests.store_calls import counted_calls
from tests.world import LAST, Planned, World, clicks, rows

D1, D2, D3 = LAST - timedelta(days=2), LAST - timedelta(days=1), LAST
NEXT = LAST + timedelta(days=1)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return clicks(tmp_path)


def snapshot(published: PublishedResult) -> Snapshot:
    return summaries.snapshot(published.result)


def planned(world: World, day: date) -> Planned:
    return source_days(world.store, world.spec, dates.window(day, world.spec.source.window_days))


def ingest(world: World, day: date = LAST) -> Snapshot:
    world.log.truncate(0)
    return snapshot(world.run("ingest", day, planned=planned(world, day)))


def remove(world: World, *days: date) -> None:
    for day in days:
        shutil.rmtree(world.source / f"date={day}")


def known(world: World) -> dict[date, object]:
    """What the index says of each day, but for the moment of its file."""
    return {day: held.model_copy(update={"etag": ""}) for day, held in read_index(world.store, world.spec).days.items()}


def flip(world: World, key: str) -> None:
    path = world.store.local(key)
    assert path is not None
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def test_days_that_the_source_has_no_more_are_those_of_the_snapshot(world: World) -> None:
    world.put_window()
    first = ingest(world)
    remove(world, D2, D3)
    world.put(NEXT)
    second = ingest(world, NEXT)
    assert second.days[:2] == first.days[1:]
    assert (second.held, second.missing) == ((D2, D3), ())
    assert (
        "2 days are taken from the snapshot, as the source has them no more, or not whole: 2026-11-19, 2026-11-20"
        in (world.log.getvalue())
    )


def test_a_corrected_day_is_held_as_it_was_corrected(world: World) -> None:
    world.put_window()
    ingest(world)
    world.put(D2, count=44)
    corrected = ingest(world)
    world.put(D2, count=60)  # and back
    world.put(D2, count=44)
    ingest(world)
    remove(world, D2)
    assert ingest(world).days == corrected.days
    assert read_index(world.store, world.spec).days[D2].day == corrected.days[1]


@pytest.mark.parametrize("damage", ["deleted", "cut", "of another release"])
def test_the_index_is_made_again_from_what_was_published(world: World, damage: str) -> None:
    world.put_window()
    ingest(world)
    world.put(D2, count=44)
    first = ingest(world)
    before = known(world)
    key = paths.snapshot_index(table_of(world.spec))
    entry = world.store.head(key)
    assert entry is not None
    if damage == "deleted":
        world.store.delete(key)
    else:
        data = world.store.read(key)[:-20] if damage == "cut" else b'{"sha256": "0", "document": {"months": []}}'
        assert world.store.replace(key, data, expected=entry.etag)
    remove(world, D1, D2)
    assert known(world) == before
    assert ingest(world).days == first.days
    world.put(NEXT)
    ingest(world, NEXT)
    assert sorted(read_index(world.store, world.spec).days) == [D1, D2, D3, NEXT]


def test_another_list_of_columns_holds_nothing_yet(world: World) -> None:
    world.put_window()
    ingest(world)
    remove(world, D1)
    del world.document["columns"]["country"]
    world.document["source"]["missing_days"] = "skip"
    assert ingest(world).missing == (D1,)


def test_the_source_as_it_was_needs_no_source(world: World) -> None:
    world.put_window()
    first = ingest(world)
    root, days = planned(world, LAST)
    world.put(D2, count=44)
    ingest(world)
    shutil.rmtree(world.source)
    then = tuple(SourceDay(day=day.day, files=day.files, held=held) for day, held in zip(days, first.days, strict=True))
    world.as_of = "then"
    entries = {entry.key: entry for entry in world.store.list(table_of(world.spec))}
    again = snapshot(world.run("ingest", planned=(root, then)))
    rewritten = [day.day for day in first.days if world.store.head(day.file.key) != entries[day.file.key]]
    assert rewritten == [D2]  # a collection that has seen rows which newer ones have replaced leaves them now
    assert (again.days, again.version, again.as_of, again.held) == (first.days, first.version, "then", (D1, D2, D3))
    assert read_index(world.store, world.spec).days[D2].day.file.rows == 44
    flip(world, first.days[0].file.key)
    with pytest.raises(CorruptArtifact, match=f"the snapshot has lost the rows of {D1}"):
        world.run("ingest", planned=(root, then), parts={"rebuild": "run-9"})


def test_a_day_that_another_run_has_corrected_meanwhile_stays_corrected(world: World) -> None:
    world.put_window()
    ingest(world)
    before = read_index(world.store, world.spec).days
    world.put(D2, count=44)
    ingest(world)
    hold(world.store, world.spec, {}, before, replace=True)
    assert read_index(world.store, world.spec).days[D2].day.file.rows == 44
    hold(world.store, world.spec, before, replace=False)
    assert read_index(world.store, world.spec).days[D2].day.file.rows == 44


def test_a_run_that_was_planned_before_a_correction_takes_nothing_back(world: World) -> None:
    world.put_window()
    old, world.listed = planned(world, LAST), NOON
    ingest(world)
    world.put(D2, count=44)
    world.listed = NOON + timedelta(minutes=2)
    corrected = ingest(world)
    world.listed = NOON + timedelta(minutes=1)
    with pytest.raises(SourceChanged, match=f"{D2}: another run has read other rows of it since this run was planned"):
        world.run("ingest", planned=old)
    assert read_index(world.store, world.spec).days[D2].day == corrected.days[1]
    remove(world, D2)
    world.listed = NOON + timedelta(minutes=3)
    assert ingest(world).days == corrected.days


def test_a_day_of_which_the_source_keeps_some_files_is_whole_as_it_was_read(world: World) -> None:
    world.put_window()
    world.put(D2, rows(5, D2), name="part-1.parquet")
    first = ingest(world)
    (world.source / f"date={D2}" / "part-0.parquet").unlink()
    second = ingest(world)
    assert (second.days, second.held) == (first.days, (D2,))
    asked = source_days(world.store, world.spec, dates.window(LAST, 3), rebuild=True)
    rebuilt = snapshot(world.run("ingest", planned=asked, parts={"rebuild": "run-7"}))
    assert (rebuilt.days[1].file.rows, rebuilt.held) == (5, ())
    world.put(D2, rows(7, D2), name="part-1.parquet")
    assert ingest(world).days[1].file.rows == 7


def test_a_day_that_comes_empty_is_the_one_that_was_read(world: World) -> None:
    world.put_window()
    first = ingest(world)
    world.put(D2, pa.table(rows(1, D2)).slice(1))
    for _ in range(2):
        second = ingest(world)
        assert (second.days, second.held) == (first.days, (D2,))
    remove(world, D2)
    assert ingest(world).days == first.days


def test_the_data_date_is_never_held(world: World) -> None:
    world.put_window()
    ingest(world)
    remove(world, D3)
    assert planned(world, D3)[1][-1].missing
    with pytest.raises(DataRejected, match="the source has no files for the data date"):
        ingest(world)


def test_a_run_with_another_source_leaves_no_trace_in_the_snapshot(world: World) -> None:
    world.put_window()
    first, before = ingest(world), read_index(world.store, world.spec)
    world.put(D2, count=5)
    remove(world, D1)
    _, other_days = source_days(world.store, world.spec, dates.window(LAST, 3), own=False)
    assert other_days[0].missing
    world.put(D1)
    request = world.request("ingest", planned=world.plan()).model_copy(update={"another_source": True})
    other = snapshot(world.finish(request)[1])
    assert other.days[1].file.rows == 5
    assert read_index(world.store, world.spec) == before
    uri, options = world.store.table(first.table)
    assert any(
        name.endswith(f"{first.days[1].file.sha256}.parquet")
        for name in DeltaTable(uri, storage_options=options).file_uris()
    )


def test_a_held_day_that_is_damaged_is_read_again_where_the_source_has_it(world: World) -> None:
    world.put_window()
    first = ingest(world)
    lost = first.days[1].file.key
    world.store.delete(lost)
    assert ingest(world).days == first.days
    assert world.store.head(lost) is not None


def test_a_held_day_that_is_damaged_and_that_no_source_has_is_missing_by_name(world: World) -> None:
    world.put_window()
    first = ingest(world)
    world.store.delete(first.days[1].file.key)
    remove(world, D2)
    world.document["source"]["missing_days"] = "skip"
    assert ingest(world).missing == (D2,)
    assert f"the snapshot has lost the rows of {D2}" in world.log.getvalue()
    world.document["source"]["missing_days"] = "fail"
    with pytest.raises(DataRejected, match="1 of 3 days have no data"):
        ingest(world)


def test_a_byte_that_nobody_wrote_is_found_within_a_month(world: World) -> None:
    world.document["source"]["window_days"] = 31
    world.put_window(12)
    made = ingest(world)
    root, source = planned(world, LAST)
    for day in made.days:
        flip(world, day.file.key)
    found: set[date] = set()
    for night in range(30):
        request = world.request("ingest", LAST + timedelta(days=night), planned=(root, source))
        with world.open(request) as ctx:
            stored = {entry.key: entry for entry in world.store.list(made.table)}
            days = read_index(world.store, world.spec).days
            as_now = {day: one.model_copy(update={"etag": stored[one.day.file.key].etag}) for day, one in days.items()}
            damaged = {day.day for day in source} - {*take_held(ctx, SnapshotIndex(days=as_now), stored, {})}
        assert len(damaged) <= 3
        found |= damaged
    assert found == {day.day for day in source}


def test_the_calls_to_the_store_do_not_grow_with_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for place, days in enumerate((3, 30)):
        world = clicks(tmp_path / str(place))
        world.document["source"]["window_days"] = days
        world.put_window(12)
        ingest(world)
        world.put(NEXT, rows(12, NEXT))
        made = planned(world, NEXT)
        with counted_calls(monkeypatch) as calls:
            world.run("ingest", NEXT, planned=made)
        counts.append(len(calls))
    assert counts[0] >= 10
    assert counts[1] <= counts[0] + 2, counts
