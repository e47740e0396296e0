"""Joins of further sources: each row has what a brute-force search finds, and no row sees its future."""

import json
import re
import shutil
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.contracts import dates, paths, summaries
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.further_source import days_looked_at, further
from ratchet.contracts.snapshot import Snapshot
from ratchet.runtime.held_days import source_days, table_of
from tasks.ingest.as_of import AsOf
from tasks.ingest.joining import gathered
from tests.world import LAST, World, clicks

D0, D1, D2 = LAST - timedelta(days=3), LAST - timedelta(days=1), LAST
NOON = datetime(2026, 11, 20, 12)
HOUR = timedelta(hours=1)
TIME = pa.timestamp("us")


def joined(folder: Path, **keys: Any) -> World:
    """Clicks of a window of three days with the plan and the seats of their user. keys: of the join."""
    folder.mkdir(exist_ok=True)
    world = clicks(folder, source={"window_days": 3, **keys.pop("main", {})})
    document = world.document
    document["source"]["missing_days"] = "skip"
    document["columns"] = {
        "user_id": {"role": "id", "type": "string"},
        "region": {"role": "id", "type": "int64"},
        "shown_at": {"role": "time", "type": "timestamp"},
        "price": {"role": "numeric", "type": "float64"},
        "plan": {"role": "categorical", "type": "string"},
        "seats": {"role": "numeric", "type": "int64"},
        "clicked": {"role": "label", "type": "int64"},
    }
    uri = f"{folder}/users/{{date}}/*.parquet"
    (folder / "users").mkdir(exist_ok=True)
    source = {
        "kind": "files",
        "uri": uri,
        "missing_days": "skip",
        "names": {"plan": "tariff"},
        **keys.pop("source", {}),
    }
    join = {"source": source, "on": ["user_id", "region"], "time": "updated_at", "within": "1d"}
    document["joins"] = {"users": {**join, "columns": ["plan", "seats"], **keys}}
    return world


def put_main(world: World, day: date, rows: Sequence[tuple[Any, Any, Any]], name: str = "a.parquet") -> None:
    """Rows of (user, region, time)."""
    users, regions, times = ([row[place] for row in rows] for place in range(3))
    many = len(rows)
    columns = {
        "user_id": pa.array(users, pa.string()),
        "region": pa.array(regions, pa.int64()),
        "shown_at": pa.array(times, TIME),
        "price": pa.array([float(number) for number in range(many)]),
        "clicked": pa.array([number % 2 for number in range(many)], pa.int64()),
    }
    world.put(day, pa.table(columns), name)


def put_users(world: World, day: date, rows: Sequence[tuple[Any, ...]], kind: Any = TIME, name: str = "a") -> None:
    """Rows of (user, region, time, plan, seats)."""
    names = ("user_id", "region", "updated_at", "tariff", "seats")
    types = (pa.string(), pa.int64(), kind, pa.string(), pa.int64())
    columns = {one: pa.array([row[at] for row in rows], types[at]) for at, one in enumerate(names)}
    path = world.folder / "users" / str(day) / f"{name}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), path)


def ingest(world: World, day: date = LAST, listed: datetime | None = None) -> Snapshot:
    world.log.truncate(0)
    world.listed = listed
    planned = source_days(world.store, world.spec, dates.window(day, world.spec.source.window_days))
    return summaries.snapshot(world.run("ingest", day, planned=planned).result)


def rows_of(world: World, snapshot: Snapshot, day: date) -> list[dict[str, Any]]:
    (found,) = [one for one in snapshot.days if one.day == day]
    path = world.store.local(found.file.key)
    assert path is not None
    return [*pq.read_table(path).to_pylist()]


def events(world: World, name: str) -> list[str]:
    lines = world.log.getvalue().replace("\0", "").splitlines()  # truncated, and written on
    found = [json.loads(line) for line in lines]
    return [one["message"] for one in found if one["event"] == name]


def by_force(world: World, day: date, row: Sequence[Any], users: dict[date, list[tuple[Any, ...]]]) -> Any:
    """The plan and the seats of one row, by a look at each further row: the definition."""
    spec, newest, found = world.spec, None, (None, None)
    for one in days_looked_at(spec, "users", day):
        for user, region, time, plan, seats in users.get(one, ()):
            if None in {user, region, time, *row} or (user, region) != (row[0], row[1]) or time > row[2]:
                continue
            if row[2] - time <= timedelta(seconds=spec.joins["users"].within) and (newest is None or time >= newest):
                newest, found = time, (plan, seats)
    return found


offsets = st.one_of(st.none(), st.integers(-30, 75), st.sampled_from([-24, -12, 0, 12, 24, 36]))
moments = offsets.map(lambda hours: None if hours is None else NOON - 24 * HOUR + hours * HOUR)
users_ = st.sampled_from(["a", "b", "", None])
regions = st.sampled_from([1, 2, None])
mains = st.lists(st.tuples(users_, regions, moments), max_size=12)
furthers = st.lists(
    st.tuples(users_, regions, moments, st.sampled_from(["free", "paid", None]), st.integers(0, 9)), max_size=12
)
zones = st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata"])


@settings(max_examples=10, deadline=None)
@given(
    of_main=st.lists(mains, min_size=2, max_size=2),
    of_users=st.dictionaries(st.integers(-3, 1), st.lists(furthers, min_size=1, max_size=2)),
    main_zone=zones,
    zone=zones,
    hours=st.sampled_from([1, 24, 30]),
    starts=st.sampled_from(["00:00", "04:00"]),
)
def test_a_join_is_that_of_a_search_by_force(
    tmp_path_factory: pytest.TempPathFactory,
    of_main: list[list[tuple[Any, Any, Any]]],
    of_users: dict[int, list[list[tuple[Any, ...]]]],
    main_zone: str,
    zone: str,
    hours: int,
    starts: str,
) -> None:
    """In any zones and days, with ties, missing keys and times, unsorted rows and several files."""
    main, source = {"timezone": main_zone}, {"timezone": zone, "day_starts": starts}
    world = joined(tmp_path_factory.mktemp("join"), main=main, source=source, within=f"{hours}h")
    first = [("a", 1, NOON)]
    put_main(world, D2, [*first, *of_main[0]])
    put_main(world, D2, [*first, *of_main[1]], "b.parquet")
    users = {D2 + timedelta(days=back): files for back, files in of_users.items()}
    for day, files in users.items():
        for number, rows in enumerate(files):
            put_users(world, day, rows, name=f"{number}")
    found = rows_of(world, ingest(world), D2)
    flat = {day: [row for rows in files for row in rows] for day, files in users.items()}
    expected = [by_force(world, D2, row, flat) for row in (*first, *of_main[0], *first, *of_main[1])]
    assert [(row["plan"], row["seats"]) for row in found] == expected
    assert [row["price"] for row in found] == [float(i) for rows in of_main for i in range(len(rows) + 1)]


def search(row: tuple[Any, Any, Any], others: Sequence[tuple[Any, Any, Any]], within: int) -> int:
    """The definition again, for rows of (key, key, time): the place of the further row, -1 without one."""
    fits = [
        (time, place)
        for place, (first, second, time) in enumerate(others)
        if None not in {*row, first, second, time} and (first, second) == row[:2] and 0 <= row[2] - time <= within
    ]
    return max(fits, default=(0, -1))[1]


numbers = st.one_of(st.none(), st.integers(-9, 9), st.sampled_from([-(2**63), 2**63 - 1, 10**15]))
triples = st.lists(
    st.tuples(st.sampled_from([None, "a", "b", ""]), st.sampled_from([None, 1, 2]), numbers), max_size=30
)


@settings(max_examples=80, deadline=None)
@given(rows=triples, others=triples, within=st.sampled_from([0, 1, 5, 31_536_000_000_000]), cut=st.integers(0, 30))
def test_rows_find_the_same_in_any_batches_and_at_the_ends_of_time(
    rows: list[tuple[Any, Any, Any]], others: list[tuple[Any, Any, Any]], within: int, cut: int
) -> None:
    def columns(of: Sequence[tuple[Any, Any, Any]]) -> tuple[list[Any], Any]:
        first, second, times = ([row[place] for row in of] for place in range(3))
        return [pa.array(first, pa.string()), pa.array(second, pa.int64())], pa.array(times, pa.int64()).cast(TIME)

    as_of = AsOf(*columns(others), within)
    found = [place for part in (rows[:cut], rows[cut:]) for place in as_of.find(*columns(part)).tolist()]
    assert found == [search(row, others, within) for row in rows]


def filled(folder: Path, **keys: Any) -> World:
    """A window of three days, each with a row at noon, and users of the days before each noon."""
    world = joined(folder, **keys)
    for back in range(3):
        day, noon = LAST - timedelta(days=back), NOON - timedelta(days=back)
        put_main(world, day, [("a", 1, noon), ("z", 1, noon)])
        put_users(world, day, [("a", 1, noon - HOUR, f"plan {day}", back), ("a", 1, noon + HOUR, "future", 99)])
    return world


def test_rows_of_the_days_after_a_row_and_later_on_its_day_are_never_seen(tmp_path: Path) -> None:
    world = filled(tmp_path)
    plans = [[row["plan"] for row in rows_of(world, ingest(world), D2 - timedelta(days=back))] for back in range(3)]
    assert plans == [[f"plan {D2 - timedelta(days=back)}", None] for back in range(3)]
    assert events(world, "joined") == []  # the second and third time, the days are held
    (days,) = events(world, "further")
    assert (
        days
        == "joins.users: 0 days read, 3 days as the snapshot holds them; 1 day without data, the last one 2026-11-17"
    )


def test_the_log_says_how_many_rows_found_another(tmp_path: Path) -> None:
    world = filled(tmp_path)
    put_main(world, LAST, [("a", 1, None), (None, 1, NOON)], "b.parquet")
    ingest(world)
    said = "joins.users: 37.5 % of 8 rows found a row that was known at their time; 2 have no key or no time"
    assert events(world, "joined") == [said]


def test_of_two_rows_with_equal_key_and_time_the_later_one_counts(tmp_path: Path) -> None:
    world = filled(tmp_path)
    put_users(world, LAST, [("a", 1, NOON, "first", 1), ("a", 1, NOON, "second", 2)])
    assert rows_of(world, ingest(world), LAST)[0]["plan"] == "second"
    put_users(world, LAST, [("a", 1, NOON, "third", 3)], name="b")
    assert rows_of(world, ingest(world), LAST)[0]["plan"] == "third"


def test_a_corrected_day_is_joined_again_where_its_rows_are_looked_at(tmp_path: Path) -> None:
    world = filled(tmp_path)
    first = ingest(world)
    put_users(world, D1, [("a", 1, NOON - timedelta(days=1, hours=1), "corrected", 5)])
    second = ingest(world)
    changed = [one.day for one, other in zip(first.days, second.days, strict=True) if one.file != other.file]
    assert changed == [D1]  # the last day looks at it too, and finds a newer row
    # so that what was said of a day stays said of it
    assert [one.source for one in first.days] == [one.source for one in second.days]
    assert "ingested 2 rows of 2026-11-20" in world.log.getvalue()
    assert "ingested 2 rows of 2026-11-18" not in world.log.getvalue()
    assert rows_of(world, second, D1)[0]["plan"] == "corrected"
    shutil.rmtree(world.folder / "users" / str(D1))  # what the source has no more stays
    assert ingest(world).days == second.days


def test_a_day_that_the_main_source_has_no_more_stays_as_it_was_joined(tmp_path: Path) -> None:
    world = filled(tmp_path)
    first = ingest(world)
    shutil.rmtree(world.source / f"date={D1}")
    put_users(world, D1, [("a", 1, NOON - timedelta(days=1, hours=1), "corrected", 5)])
    second = ingest(world)
    assert second.days[:2] == first.days[:2]
    assert second.held == (D1,)
    stays = f"{D1}: its source has it no more; other rows of a further source would be joined to it now; it stays as it was read"
    assert stays in events(world, "held")
    world.as_of = "then"
    root, listed = source_days(world.store, world.spec, [one.day for one in first.days])
    held = tuple(day.model_copy(update={"held": one}) for day, one in zip(listed, second.days, strict=True))
    for within, said in (("1d", f"1 day, the last one {D1}"), ("2d", f"3 days, the last one {D2}")):
        world.log.truncate(0)
        world.document["joins"]["users"]["within"] = within
        assert summaries.snapshot(world.run("ingest", LAST, planned=(root, held)).result).days == second.days
        assert f"joined as then, and otherwise now: {said}" in events(world, "held")


def test_days_of_a_lost_index_are_found_again(tmp_path: Path) -> None:
    world = filled(tmp_path)
    first = ingest(world)
    for spec in (world.spec, further(world.spec, "users")):
        world.store.delete(paths.snapshot_index(table_of(spec)))
    assert ingest(world).days == first.days
    assert "ingested" not in world.log.getvalue()


def test_other_columns_and_their_order_are_as_without_joins(tmp_path: Path) -> None:
    """Also of a query, whose rows are sorted before they are joined."""
    world = filled(tmp_path / "with")
    database = tmp_path / "clicks.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            "create table clicks (user_id text, region int, shown_at timestamp, price double, clicked int)"
        )
        rows = "('b', 1, ?, 2, 0), ('a', 1, ?, 1, 1), ('a', 1, ?, 'nan', 0), (null, null, null, null, 1)"
        connection.execute(f"insert into clicks values {rows}", [NOON] * 3)
    query = "select * from clicks where :date = '2026-11-20'"
    source = {"kind": "sql", "uri": f"duckdb:///{database}", "query": query}
    world.document["source"] = {**source, "window_days": 3, "missing_days": "skip"}
    snapshot = ingest(world)
    joined_ = rows_of(world, snapshot, LAST)
    assert [(row.pop("plan"), row.pop("seats")) for row in joined_] == [(f"plan {LAST}", 0)] * 2 + [(None, None)] * 2
    del world.document["joins"], world.document["columns"]["plan"], world.document["columns"]["seats"]
    without = ingest(world)
    assert str(rows_of(world, without, LAST)) == str(joined_)
    assert without.days[0].source == snapshot.days[0].source


def refusal(world: World) -> str:
    with pytest.raises(RatchetError) as caught:
        ingest(world)
    return str(caught.value)


def test_times_that_do_not_say_which_was_first_are_refused(tmp_path: Path) -> None:
    world = filled(tmp_path)
    put_users(world, LAST, [("a", 1, LAST, "a date", 1)], pa.date32())
    said = (
        "joins.users: 2026-11-20: updated_at is a date, which does not say at what time of the day a row became known"
    )
    assert said in refusal(world)
    path = world.folder / "users" / str(LAST) / "a.parquet"
    path.write_text("user_id,region,updated_at,tariff,seats\na,1,2026-11-20,pro,1\n")
    assert said in refusal(world)
    first = "user_id,region,updated_at,tariff,seats\na,1,2026-11-20 11:00:00,pro,1\n"
    path.write_text(f"{first}a,1,2026-11-20,pro,1\n")  # among others with a time of day
    assert said in refusal(world)
    path.write_text(
        '{"user_id": "a", "region": 1, "updated_at": "2026-11-20 11:00:00", "tariff": "pro", "seats": 1}\n'
        '{"user_id": "a", "region": 1, "updated_at": "2026-11-20", "tariff": "pro", "seats": 1}\n'
    )
    assert said in refusal(world)
    path.write_text(first)
    assert rows_of(world, ingest(world), LAST)[0]["plan"] == "pro"
    main = world.source / f"date={LAST}" / "a.parquet"
    main.write_text("user_id,region,shown_at,price,clicked\na,1,2026-11-20 12:00:00,1,1\na,1,2026-11-20,1,1\n")
    assert "2026-11-20: shown_at is a date, which does not say at what time of the day the row was" in refusal(world)
    world = filled(tmp_path / "zone")
    for back in range(3):
        zoned = (NOON - timedelta(days=back)).replace(tzinfo=ZoneInfo("Asia/Tokyo"))
        put_users(world, LAST - timedelta(days=back), [("a", 1, zoned, "x", 1)], pa.timestamp("us", "Asia/Tokyo"))
    assert (
        "column shown_at has no time zone, and joins.users.time has one: which of two moments was first is not known; "
        "to do: deliver both with a zone, or both in UTC" in refusal(world)
    )


def test_keys_that_are_moments_have_a_zone_on_both_sides_or_on_neither(tmp_path: Path) -> None:
    world = joined(tmp_path, on=["region"])
    world.document["columns"]["region"]["type"] = "timestamp"
    plain, zoned = pa.array([NOON], TIME), pa.array([NOON], pa.timestamp("us", "Asia/Tokyo"))
    main = {"user_id": ["a"], "region": plain, "shown_at": plain, "price": [1.0], "clicked": [1]}
    world.put(LAST, pa.table(main))
    path = tmp_path / "users" / str(LAST) / "a.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"region": zoned, "updated_at": plain, "tariff": ["x"], "seats": [1]}), path)
    said = (
        "column region has no time zone, and joins.users.on has one: which of two moments was first, or which are equal"
    )
    assert said in refusal(world)


def test_a_further_source_that_lacks_a_day_or_a_column_is_refused_by_its_name(tmp_path: Path) -> None:
    world = filled(tmp_path, source={"missing_days": "fail"})
    said = (
        "joins.users.source.missing_days is fail, and 1 of the 4 days that are looked at have no data; the last ones: "
    )
    assert f"{said}2026-11-17" in refusal(world)
    world = filled(tmp_path / "other", source={"names": {}})
    assert re.search(
        r"joins.users: (2026-11-\d\d): \1/a.parquet: column plan missing; the file has user_id", refusal(world)
    )


def test_further_rows_that_the_memory_does_not_hold_are_refused_with_their_number(tmp_path: Path) -> None:
    world = filled(tmp_path)
    world.document["resources"] = {"ingest": {"memory": "300b"}}
    said = refusal(world)
    assert "resources.ingest.memory: 300b does not hold what joins.users looks at for 2026-11-" in said
    assert "need about 1m; to do: set resources.ingest.memory to 1m or more, shorten joins.users.within from 1d" in said
    world.document["columns"]["other"] = {"role": "id", "type": "string"}
    join = world.document["joins"]["users"]
    other = {"source": {**join["source"], "names": {"other": "tariff"}}, "columns": ["other"]}
    world.document["joins"]["others"] = {**join, **other}
    world.document["resources"] = {"ingest": {"memory": "1500b"}}  # each fits, both do not
    assert "days need about 1m, and those of other joins 1m" in refusal(world)


def test_the_keys_are_looked_up_once_for_a_row_group() -> None:
    batch = pa.record_batch({"x": pa.array(range(50_000))})
    parts = [*gathered([batch, batch, batch, batch.slice(0, 1)])]
    assert [part.num_rows for part in parts] == [150_000, 1]
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([batch, batch, batch, batch.slice(0, 1)]))
    assert [*gathered([])] == []


def test_a_query_is_asked_again_for_a_day_that_had_not_ended_and_after_a_refusal(tmp_path: Path) -> None:
    world = filled(tmp_path, main={"timezone": "America/New_York"})
    database = tmp_path / "users.duckdb"

    def ask(statement: str, *values: Any) -> None:
        with duckdb.connect(str(database)) as connection:
            connection.execute(statement, values)

    ask("create table users (user_id text, region bigint, updated_at timestamp, tariff text, seats bigint)")
    insert = "insert into users values ('a', 1, ?, ?, 1)"
    ask(insert, NOON + 14 * HOUR, "of the next morning")
    query = "select * from users where updated_at >= :start and updated_at < :end"
    source = {"kind": "sql", "uri": f"duckdb:///{database}", "query": query, "timezone": "UTC"}
    world.document["joins"]["users"]["source"] = {**source, "names": {"plan": "tariff"}}
    ingest(world, LAST, datetime(2026, 11, 21, 6, tzinfo=ZoneInfo("UTC")))
    ask(insert, NOON + 27 * HOUR, "of the afternoon")
    following, listed = LAST + timedelta(days=1), datetime(2026, 11, 22, 6, tzinfo=ZoneInfo("UTC"))
    put_main(world, following, [("a", 1, NOON + 30 * HOUR)])
    world.store.delete(paths.snapshot_index(table_of(further(world.spec, "users"))))  # nor is it found again
    assert rows_of(world, ingest(world, following, listed), following)[0]["plan"] == "of the afternoon"
    ask("update users set tariff = 'corrected'")
    assert rows_of(world, ingest(world, following, listed), following)[0]["plan"] == "of the afternoon"
    planned = source_days(world.store, world.spec, [following])
    again = world.run("ingest", following, planned=planned, parts={f"rebuild.{following}": "refused"}).result
    assert rows_of(world, summaries.snapshot(again), following)[0]["plan"] == "corrected"


@pytest.mark.parametrize(
    ("keys", "kind", "remedy"),
    [
        (
            {"source": {"names": {}}},
            "string",
            "deliver plan, or say in joins.users.source.names.plan what the source calls",
        ),
        ({"source": {"names": {"plan": "tarif"}}}, "string", "deliver tarif, or correct joins.users.source.names.plan"),
        ({"time": "updatd_at"}, "string", "deliver updatd_at, or correct joins.users.time"),
        ({"time": "tariff"}, "float64", "deliver tariff as a timestamp"),
        ({}, "int64", "correct the source, or change columns.plan.type"),
    ],
)
def test_what_is_wrong_with_a_further_source_names_the_key_of_the_pipeline_file(
    tmp_path: Path, keys: dict[str, Any], kind: str, remedy: str
) -> None:
    world = filled(tmp_path, **keys)
    world.document["columns"]["plan"].update(type=kind, role="numeric" if kind == "float64" else "categorical")
    if kind == "float64":
        world.document["joins"]["users"].update(columns=["seats"])
        world.document["columns"].pop("plan")
        world.document["joins"]["users"]["source"].pop("names")
    assert remedy in refusal(world)
