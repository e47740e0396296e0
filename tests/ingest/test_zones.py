"""The rule of time zones: UTC without a zone, converted with one, and no mix of another zone and none."""

import sqlite3
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import DataRejected
from tests.world import LAST, World, clicks, rows

D1, D2, D3 = LAST - timedelta(days=2), LAST - timedelta(days=1), LAST
NOON = datetime(2026, 11, 20, 12)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = clicks(tmp_path)
    made.put_window()
    return made


def in_zone(zone: str) -> pa.Table:
    """The data date with noon of a zone."""
    table = pa.table(rows(60))
    noon = pa.array([NOON] * 60).cast(pa.timestamp("us"))
    return table.set_column(1, "shown_at", pa.compute.assume_timezone(noon, zone))


def shown_at(world: World, published: Any) -> set[datetime]:
    """The times of the data date in the snapshot."""
    day = summaries.snapshot(published.result).days[-1]
    return set(pq.read_table(world.store.local(day.file.key))["shown_at"].to_pylist())


def test_a_zone_on_one_day_and_none_on_the_others_is_refused(world: World) -> None:
    world.put(D3, in_zone("America/New_York"))
    with pytest.raises(DataRejected, match=rf"column shown_at has a time zone on {D3} and none on {D2}; .*in UTC"):
        world.run("ingest")


def test_a_zone_on_every_day_is_converted_to_utc(world: World) -> None:
    for day in (D1, D2, D3):
        world.put(day, in_zone("America/New_York"))
    assert shown_at(world, world.run("ingest")) == {NOON + timedelta(hours=5)}


def test_utc_goes_with_days_without_a_zone(world: World) -> None:
    world.put(D3, in_zone("UTC"))
    assert shown_at(world, world.run("ingest")) == {NOON}


@pytest.mark.parametrize(("time", "mixed"), [("2026-11-20T12:00:00+05:00", True), ("2026-11-20T12:00:00Z", False)])
def test_the_same_holds_for_csv(world: World, time: str, mixed: bool) -> None:
    path = world.source / f"date={D3}" / "part-0.parquet"
    path.unlink()
    path.with_name("x.csv").write_text(f"query_id,shown_at,country,price,clicked\n1,{time},DE,1.5,1\n")
    if mixed:
        with pytest.raises(DataRejected, match="column shown_at has a time zone on"):
            world.run("ingest")
    else:
        assert shown_at(world, world.run("ingest")) == {NOON}


def test_a_zone_in_one_file_of_a_day_and_none_in_another_is_refused(world: World) -> None:
    world.put(D3, in_zone("Asia/Tokyo"), "part-1.parquet")
    with pytest.raises(DataRejected, match=rf"{D3}: .*part-1\.parquet: column shown_at has timestamps with a zone"):
        world.run("ingest")


@pytest.mark.parametrize(("suffix", "error"), [("", None), ("Z", None), ("+05:00", "column shown_at has a time zone")])
def test_the_same_holds_for_text_of_a_database(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, error: str | None
) -> None:
    path = tmp_path / "clicks.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("create table clicks (day, query_id, shown_at, country, price, clicked)")
    for day in (D1, D2, D3):
        end = suffix if day == D3 else ""
        connection.execute("insert into clicks values (?, 1, ?, 'DE', 1.5, 1)", [str(day), f"{day} 12:00:00{end}"])
    connection.commit()
    connection.close()
    monkeypatch.setenv("RATCHET_SOURCE_CLICKS", f"sqlite:///{path}")
    query = "select * from clicks where day = :date"
    world.document["source"] = {"kind": "sql", "uri": "${RATCHET_SOURCE_CLICKS}", "query": query, "window_days": 3}
    if error:
        with pytest.raises(DataRejected, match=error):
            world.run("ingest")
    else:
        assert shown_at(world, world.run("ingest")) == {NOON}
