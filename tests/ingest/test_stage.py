import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError, DataRejected, SourceChanged
from ratchet.contracts.snapshot import Snapshot
from ratchet.store.opening import open_store
from tasks.ingest import day as module
from tests.world import LAST, World, clicks, rows

D1, D2, D3 = LAST - timedelta(days=2), LAST - timedelta(days=1), LAST


@pytest.fixture
def world(tmp_path: Path) -> World:
    return clicks(tmp_path)


def snapshot(published: Any) -> Snapshot:
    return summaries.snapshot(published.result)


def test_a_window_becomes_a_snapshot_that_anyone_can_read(world: World) -> None:
    world.put_window(60)
    made = snapshot(world.run("ingest"))
    assert [day.day for day in made.days] == [D1, D2, D3]
    assert made.rows == 180
    uri = world.store.table(made.table)[0]
    table = DeltaTable(uri, version=made.version)
    assert table.metadata().partition_columns == ["date"]
    frames = {
        "deltalake": pl.from_arrow(table.to_pyarrow_table()),
        "polars": pl.read_delta(uri, version=made.version),
        "pandas": pl.from_pandas(table.to_pandas()),
    }
    for name, frame in frames.items():
        assert frame.shape == (180, 6), name
        assert sorted(frame["date"].cast(pl.Date).unique()) == [D1, D2, D3], name
    day = world.store.local(made.days[0].file.key)
    assert pq.read_table(day).to_pydict() == rows(60, D1)
    assert list(pd.read_parquet(day).columns) == list(world.spec.columns)


def test_again_changes_nothing_and_reads_nothing(world: World) -> None:
    world.put_window()
    first = world.run("ingest")
    planned = world.plan()
    for path in world.source.rglob("*.parquet"):
        path.unlink()
    second = world.run("ingest", planned=planned)
    assert second.result.content == first.result.content
    assert snapshot(second) == snapshot(first)


def test_the_next_night_reads_the_new_day_alone(world: World) -> None:
    world.put_window()
    first = snapshot(world.run("ingest"))
    world.put(D3 + timedelta(days=1))
    world.log.truncate(0)
    second = snapshot(world.run("ingest", data_date=D3 + timedelta(days=1)))
    assert second.days[:2] == first.days[1:]
    assert "2 days of the window are held as the source has them" in world.log.getvalue()
    assert world.log.getvalue().count("ingested") == 1
    assert second.version == first.version + 1


def test_a_changed_day_is_replaced_and_the_old_version_still_names_the_old_rows(world: World) -> None:
    world.put_window(60)
    first = snapshot(world.run("ingest"))
    world.put(D2, count=44)
    second = snapshot(world.run("ingest"))
    uri = world.store.table(second.table)[0]
    assert second.rows == pl.read_delta(uri, version=second.version).height == 164
    assert pl.read_delta(uri, version=first.version).height == 180
    assert [old == new for old, new in zip(first.days, second.days, strict=True)] == [True, False, True]


def test_a_run_with_the_source_of_then_leaves_the_newest_rows_to_other_readers(world: World) -> None:
    world.put_window(60)
    planned, first = world.plan(), snapshot(world.run("ingest"))
    world.put(D2, count=44)
    second = snapshot(world.run("ingest"))
    world.as_of = "then"
    again = snapshot(world.run("ingest", planned=planned))
    assert (again.days, again.version) == (first.days, first.version)
    uri = world.store.table(again.table)[0]
    assert pl.read_delta(uri).height == second.rows == 164


def test_two_runs_of_a_date_at_once_make_one_version(tmp_path: Path) -> None:
    one, two = clicks(tmp_path), clicks(tmp_path)
    two.number = 100
    one.put_window()
    with ThreadPoolExecutor(2) as pool:
        made = [snapshot(published) for published in pool.map(lambda world: world.run("ingest"), (one, two))]
    assert made[0].days == made[1].days
    table = DeltaTable(one.store.table(made[0].table)[0])
    assert len(table.file_uris()) == 3
    assert table.version() == 1


def test_several_files_and_kinds_make_one_day_in_the_order_of_their_names(world: World) -> None:
    world.put_window()
    whole = pa.table(rows(60))
    for path in (world.source / f"date={D3}").iterdir():
        path.unlink()
    world.put(D3, whole.slice(0, 20), "a.parquet")
    frame = whole.slice(20, 20).to_pandas()
    frame.to_csv(world.source / f"date={D3}" / "b.csv", index=False)
    frame = whole.slice(40).to_pandas()
    frame["shown_at"] = frame["shown_at"].dt.tz_localize("UTC").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    frame.to_csv(world.source / f"date={D3}" / "c.csv.gz", index=False)
    made = snapshot(world.run("ingest"))
    assert pq.read_table(world.store.local(made.days[-1].file.key)).equals(whole)


def test_csv_distinguishes_missing_from_empty(world: World) -> None:
    world.put_window()
    path = world.source / f"date={D3}" / "part-0.parquet"
    path.unlink()
    path.with_name("x.csv").write_text(
        'query_id,shown_at,country,price,clicked,more\n1,2026-11-20 12:00:00,NA,1.5,1,z\n2,,"",,0,z\n3,2026-11-20 12:00:00,,2,0,z\n'
    )
    made = snapshot(world.run("ingest"))
    table = pq.read_table(world.store.local(made.days[-1].file.key))
    assert table["country"].to_pylist() == ["NA", "", None]
    assert table["price"].to_pylist() == [1.5, None, 2.0]
    assert table["shown_at"].null_count == 1
    assert "not declared: more" in world.log.getvalue()


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (
            "price",
            ["1.5"] * 60,
            r"2026-11-20: date=2026-11-20/part-0\.parquet: column price is string, declared float64",
        ),
        ("query_id", [1.5] * 60, "column query_id is double, declared int64: Float value 1.50* was truncated"),
        ("country", list(range(60)), "column country is int64, declared string"),
    ],
)
def test_a_type_that_changed_is_refused_by_name(world: World, column: str, values: list[Any], message: str) -> None:
    world.put_window()
    world.put(D3, pa.table({**rows(60), column: values}))
    with pytest.raises(DataRejected, match=message):
        world.run("ingest")


def test_types_are_checked_even_in_a_file_without_rows(world: World) -> None:
    world.put_window()
    world.put(D3, pa.table({**rows(60), "price": ["x"] * 60}).slice(0, 0), "empty.parquet")
    with pytest.raises(DataRejected, match="column price is string"):
        world.run("ingest")


def test_a_lost_column_is_named(world: World) -> None:
    world.put_window()
    world.put(D3, pa.table(rows(60)).drop_columns(["price", "country"]))
    with pytest.raises(DataRejected, match="columns country, price missing; the file has query_id, shown_at, clicked"):
        world.run("ingest")


@pytest.mark.parametrize("name", ["part-0.parquet", "part-0.csv"])
def test_a_duplicate_column_is_refused_by_name(world: World, name: str) -> None:
    world.put_window()
    day = pa.table(rows(60, D3))
    (world.source / f"date={D3}" / "part-0.parquet").unlink()
    path = world.source / f"date={D3}" / name
    write = pq.write_table if name.endswith(".parquet") else pa.csv.write_csv
    write(day.append_column("price", day.column("price")), path)
    with pytest.raises(DataRejected, match=rf"{D3}: date={D3}/{name}: column price occurs 2 times"):
        world.run("ingest")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"PAR1 not so", "cannot be read as Parquet"),
        (b"PAR1" + b"\0" * 60 + b"PAR1", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(world: World, content: bytes, message: str) -> None:
    world.put_window()
    (world.source / f"date={D2}" / "part-0.parquet").write_bytes(content)
    with pytest.raises(DataRejected, match=rf"{D2}: date={D2}/part-0\.parquet: .*{message}"):
        world.run("ingest")


def test_narrow_types_are_widened_without_loss(world: World) -> None:
    world.put_window()
    plain = pa.table(rows(60))
    narrow = plain.cast(
        pa.schema(
            [
                ("query_id", pa.int16()),
                ("shown_at", pa.timestamp("ms", "UTC")),
                ("country", pa.large_string()),
                ("price", pa.float32()),
                ("clicked", pa.bool_()),
            ]
        )
    )
    world.put(D3, narrow.set_column(2, "country", narrow["country"].dictionary_encode()))
    made = snapshot(world.run("ingest"))
    assert pq.read_table(world.store.local(made.days[-1].file.key)).equals(plain)


def test_a_source_that_changes_after_planning_is_refused(world: World) -> None:
    world.put_window()
    planned = world.plan()
    world.put(D2, count=61)
    with pytest.raises(
        SourceChanged, match=rf"{D2}: .*part-0\.parquet changed or disappeared after the run was planned"
    ):
        world.run("ingest", planned=planned)


def test_a_source_that_changes_while_it_is_read_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put_window()
    real = module.write

    def write_and_disturb(batches: Any, schema: Any, path: Path) -> Any:
        written = real(batches, schema, path)
        source = world.source / f"date={D2}" / "part-0.parquet"
        os.utime(source, ns=(1, 1))
        return written

    monkeypatch.setattr(module, "write", write_and_disturb)
    with pytest.raises(SourceChanged, match=f"{D2}: .* changed or disappeared"):
        world.run("ingest")


def test_the_data_date_must_have_data(world: World) -> None:
    world.document["source"]["missing_days"] = "skip"
    world.put(D1)
    world.put(D2)
    with pytest.raises(DataRejected, match=f"{D3}: the source has no files for the data date"):
        world.run("ingest")
    world.put(D3, pa.table(rows(4)).slice(0, 0))
    with pytest.raises(DataRejected, match=f"{D3}: the source has no rows for the data date") as caught:
        world.run("ingest")
    assert "source.wait" not in caught.value.remedy  # a run waits for files, and for no rows


def test_an_earlier_day_without_data_stops_the_run_or_is_skipped_as_the_file_says(world: World) -> None:
    world.put(D2, pa.table(rows(4)).slice(0, 0))
    world.put(D3)
    with pytest.raises(DataRejected, match=rf"source\.missing_days is fail, and 1 of 3 days have no data: {D1}"):
        world.run("ingest")
    world.document["source"]["missing_days"] = "skip"
    made = snapshot(world.run("ingest"))
    assert made.missing == (D1, D2)
    assert [day.day for day in made.days] == [D3]


def test_a_lost_file_of_the_snapshot_is_written_again(world: World) -> None:
    world.put_window()
    first = world.run("ingest")
    world.store.delete(snapshot(first).days[1].file.key)
    second = world.run("ingest")
    assert second.result.content == first.result.content
    assert world.store.head(snapshot(first).days[1].file.key) is not None


def test_a_derived_column_is_not_looked_for(world: World) -> None:
    world.document["columns"]["dear"] = {"role": "numeric", "type": "float64", "derived": True}
    world.put_window()
    assert snapshot(world.run("ingest")).rows == 180


def test_rebuild_reads_every_day_again(world: World) -> None:
    world.put_window()
    first = world.run("ingest")
    world.log.truncate(0)
    second = world.run("ingest", parts={"rebuild": "run-7"})
    assert world.log.getvalue().count("ingested") == 3
    assert second.result.content == first.result.content


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "clicks.sqlite"
    with sqlite3.connect(path) as connection:
        for day in (D1, D2, D3):
            frame = pd.DataFrame(rows(60, day)).assign(
                day=day.isoformat(), clicked=lambda frame: frame["clicked"].astype(bool)
            )
            frame.to_sql("clicks", connection, if_exists="append", index=False)
    connection.close()
    monkeypatch.setenv("CLICKS_DB", f"sqlite:///{path}")
    monkeypatch.setenv("RATCHET_SOURCE_VARIABLES", "CLICKS_DB")
    return path


def sql(world: World, query: str, uri: str = "${CLICKS_DB}") -> None:
    world.document["source"] = {"kind": "sql", "uri": uri, "query": query, "window_days": 3}


def test_a_database_is_ingested_day_by_day(world: World, database: Path) -> None:
    sql(world, "select * from clicks where day = :date order by rowid")
    made = snapshot(world.run("ingest"))
    names = list(rows(1))
    for day in made.days:
        expected = pa.table(rows(60, day.day)).sort_by([(name, "ascending") for name in names])
        assert pq.read_table(world.store.local(day.file.key)).equals(expected)
    sql(world, "select * from clicks where day = :date and day < '2026-11-20'")
    with pytest.raises(DataRejected, match="no rows for the data date"):
        world.run("ingest")


def test_a_day_of_a_database_is_read_once_until_a_rebuild_and_then_later_nights_take_the_new_rows(
    world: World, database: Path
) -> None:
    sql(world, "select * from clicks where day = :date order by rowid")
    first = world.run("ingest")
    connection = sqlite3.connect(database)
    connection.execute("delete from clicks where day = ? and query_id = 0", [D2.isoformat()])
    connection.commit()
    connection.close()
    assert world.run("ingest").result.content == first.result.content
    rebuilt = world.run("ingest", parts={"rebuild": "run-3"})
    assert snapshot(rebuilt).rows == 176
    assert world.run("ingest").result.content == rebuilt.result.content
    uri = world.store.table(snapshot(first).table)[0]
    assert pl.read_delta(uri, version=snapshot(first).version).height == 180


def test_one_day_of_a_database_is_read_again_where_its_rows_were_refused(world: World, database: Path) -> None:
    sql(world, "select * from clicks where day = :date")
    world.run("ingest")
    connection = sqlite3.connect(database)
    connection.execute("delete from clicks where query_id = 0")
    connection.commit()
    connection.close()
    again = world.run("ingest", parts={f"rebuild.{D3}": "run-3"})
    assert [day.file.rows for day in snapshot(again).days] == [60, 60, 56]
    assert world.run("ingest").result.content == again.result.content


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select country, nothing_such from clicks where day = :date", r"source\.query: no such column: nothing_such"),
        ("select * from elsewhere where day = :date", r"source\.query: no such table: elsewhere"),
    ],
)
def test_an_invalid_query_is_reported(world: World, database: Path, query: str, message: str) -> None:
    sql(world, query)
    with pytest.raises(ConfigurationError, match=message):
        world.run("ingest")


def test_a_query_that_lacks_a_column_is_refused(world: World, database: Path) -> None:
    sql(world, "select query_id from clicks where day = :date")
    with pytest.raises(DataRejected, match=r"source\.query: columns shown_at, country, price, clicked missing"):
        world.run("ingest")


def test_a_password_is_not_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_SOURCE_VARIABLES", "CLICKS_DB")
    monkeypatch.setenv("CLICKS_DB", "nosuchkind://me:hunter2@localhost/db")
    sql(world, "select 1 where :date")
    with pytest.raises(ConfigurationError, match="is not the URL of a database") as caught:
        world.run("ingest")
    assert "hunter2" not in str(caught.value)


def test_a_database_whose_driver_is_not_installed_is_named_with_those_that_are(world: World) -> None:
    sql(world, "select 1 where :date", uri="mysql://localhost/shop")
    with pytest.raises(ConfigurationError, match="the driver of mysql is not installed") as caught:
        world.run("ingest")
    assert "postgresql+psycopg://" in caught.value.remedy


@pytest.mark.parametrize("partitioned", [True, False])
def test_a_delta_table_is_ingested_day_by_day(world: World, tmp_path: Path, partitioned: Any) -> None:
    uri = str(tmp_path / "delta")
    options = {"partition_by": ["day"]} if partitioned else {}
    for day in (D1, D2, D3):
        frame = pl.DataFrame(rows(60, day)).with_columns(day=pl.lit(day))
        frame.write_delta(uri, mode="append", delta_write_options=options)
    world.document["source"] = {"kind": "delta", "uri": uri, "date_column": "day", "window_days": 3}
    made = snapshot(world.run("ingest"))
    for day in made.days:
        assert pq.read_table(world.store.local(day.file.key)).to_pydict() == rows(60, day.day)
    planned = world.plan(date(2026, 11, 20))
    pl.DataFrame(rows(10, D3)).with_columns(day=pl.lit(D3)).write_delta(uri, mode="append")
    world.document["columns"]["price"]["type"] = "float64"
    if partitioned:
        with pytest.raises(SourceChanged, match="changed after the run was planned"):
            world.run("ingest", planned=planned, parts={"rebuild": "1"})
    else:
        assert snapshot(world.run("ingest", planned=planned, parts={"rebuild": "1"})).rows == 180
    assert snapshot(world.run("ingest")).rows == 190


@pytest.mark.parametrize("partitioned", [True, False])
def test_a_day_of_a_delta_table_is_the_same_whatever_is_added_to_other_days(
    world: World, tmp_path: Path, partitioned: bool
) -> None:
    uri = str(tmp_path / "delta")
    options = {"partition_by": ["day"]} if partitioned else {}

    def append(day: date, count: int) -> None:
        frame = pl.DataFrame(rows(count, day)).with_columns(day=pl.lit(day))
        frame.write_delta(uri, mode="append", delta_write_options=options)

    for day in (D1, D2, D3):
        append(day, 60)
    world.document["source"] = {"kind": "delta", "uri": uri, "date_column": "day", "window_days": 3}
    before = {day.day: day.source for day in snapshot(world.run("ingest")).days}
    append(D3, 1)
    after = {day.day: day.source for day in snapshot(world.run("ingest")).days}
    assert [day for day in before if before[day] != after[day]] == [D3]


def test_a_snapshot_in_s3_is_the_same_snapshot(tmp_path: Path, s3_uri: str) -> None:
    (tmp_path / "remote").mkdir()
    here, there = clicks(tmp_path), clicks(tmp_path / "remote", s3_uri)
    there.document["source"]["uri"] = here.document["source"]["uri"]
    here.put_window()
    local, remote = here.run("ingest"), there.run("ingest")
    assert remote.result.content == local.result.content
    uri, options = there.store.table(snapshot(remote).table)
    assert pl.read_delta(uri, version=snapshot(remote).version, storage_options=options).height == 180
    assert there.run("ingest").result.summary == remote.result.summary


def test_a_source_in_s3_is_read_and_its_etags_are_checked(tmp_path: Path, s3_uri: str) -> None:
    world = clicks(tmp_path)
    world.put_window()
    expected = world.run("ingest")
    bucket = open_store(f"{s3_uri}/clicks")
    for path in world.source.rglob("*.parquet"):
        bucket.upload(path, path.relative_to(world.source).as_posix())
    world.document["source"]["uri"] = f"{s3_uri}/clicks/date={{date}}/*"
    assert world.run("ingest").result.content == expected.result.content
    planned = world.plan()
    bucket.upload(world.put(D2, count=8), f"date={D2}/part-0.parquet")
    with pytest.raises(SourceChanged, match=f"{D2}: .*changed or disappeared"):
        world.run("ingest", planned=planned, parts={"rebuild": "1"})


def test_a_damaged_part_of_a_day_is_computed_again(world: World) -> None:
    world.put_window()
    first = world.run("ingest")
    entry = next(entry for entry in world.store.list("published/clicks/ingest.day"))
    world.store.replace(entry.key, world.store.read(entry.key)[:-1], expected=entry.etag)
    assert world.run("ingest").result.content == first.result.content


def test_a_delta_table_may_hold_its_days_as_text_but_not_as_numbers(world: World, tmp_path: Path) -> None:
    for name, kind in (("text", pl.String), ("number", pl.Int64)):
        uri = str(tmp_path / name)
        for day in (D1, D2, D3):
            value = day.isoformat() if kind is pl.String else day.toordinal()
            frame = pl.DataFrame(rows(60, day)).with_columns(day=pl.lit(value, kind))
            frame.write_delta(uri, mode="append")
        world.document["source"] = {"kind": "delta", "uri": uri, "date_column": "day", "window_days": 3}
        if kind is pl.String:
            assert snapshot(world.run("ingest")).rows == 180
        else:
            with pytest.raises(ConfigurationError, match=r"source\.date_column: day is int64"):
                world.run("ingest")
