"""The rows of a day in databases of all kinds: the bounds of the day, and the types of the values."""

import re
import sqlite3
import subprocess
import sys
import time
import zoneinfo
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from ratchet.contracts import paths, summaries
from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import ConfigurationError, DataRejected, Unavailable
from ratchet.contracts.source import SqlSource
from ratchet.runtime.held_days import table_of
from ratchet.runtime.sources import list_days
from tasks.ingest.sql_source import changes, read_query
from tasks.ingest.traits import SourceTraits
from tests.faults.strace import ROOT, STRACE, needs_strace
from tests.world import LAST, World, clicks

DAY = date(2026, 10, 25)
"""Of 25 hours in Berlin: the clocks go back at 01:00 UTC."""
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
START, END = (datetime(2026, 10, 25 + day, 4, tzinfo=BERLIN).astimezone(UTC) for day in (0, 1))
MOMENTS = [START - timedelta(seconds=1), START, END - timedelta(seconds=1), END]
BETWEEN = "select id, t from moments where t >= :start and t < :end and ':date' = ':' || 'date' -- :date of the day"


class Lite(SQLiteDialect_pysqlite):
    """A database that Ratchet has no code for."""

    name = "lite"
    supports_statement_cache = True


def read(uri: str, query: str, columns: dict[str, ColumnType], monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.setenv("RATCHET_SOURCE_DATABASE", uri)
    source = SqlSource(kind="sql", uri="${RATCHET_SOURCE_DATABASE}", query=query)
    batches = read_query(source, DAY, (START, END), columns, SourceTraits())
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture(params=["sqlite", "lite", "duckdb", "duckdb with a zone"])
def moments(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database with rows around the bounds of the day, in UTC."""
    kind, _, zoned = str(request.param).partition(" ")
    path = tmp_path / "moments.db"
    values = [(place, moment.replace(tzinfo=None).isoformat(" ")) for place, moment in enumerate(MOMENTS)]
    if kind == "duckdb":
        with duckdb.connect(path) as database:
            database.execute("set TimeZone = 'UTC'")
            database.execute(f"create table moments (id bigint, t timestamp{'tz' if zoned else ''})")
            database.executemany("insert into moments values (?, ?)", values)
    else:
        connection = sqlite3.connect(path)
        connection.execute("create table moments (id, t)")
        connection.executemany("insert into moments values (?, ?)", values)
        connection.commit()
        connection.close()
    registry.register("lite", __name__, "Lite")
    yield f"{kind}:///{path}"
    registry.impls.pop("lite")


def test_a_day_begins_and_ends_at_its_moments(moments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    found = read(moments, BETWEEN, {"id": "int64", "t": "timestamp"}, monkeypatch)
    assert [row["id"] for row in found] == [1, 2]
    assert [row["t"] for row in found] == [moment.replace(tzinfo=None) for moment in MOMENTS[1:3]]


def test_text_with_a_t_is_within_the_bounds_as_the_docs_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("create table moments (id, t)")
    values = [(place, f"{moment:%Y-%m-%dT%H:%M:%SZ}") for place, moment in enumerate(MOMENTS)]
    connection.executemany("insert into moments values (?, ?)", values)
    connection.commit()
    connection.close()
    (where,) = re.findall(r"`(datetime\(t\)[^`]*)`", str(SqlSource.model_fields["query"].description))
    query = f"select id, t from moments where {where}"
    found = read(f"sqlite:///{tmp_path}/x.db", query, {"id": "int64", "t": "timestamp"}, monkeypatch)
    assert [row["id"] for row in found] == [1, 2]


def test_a_day_with_other_bounds_is_another_day_of_a_query_that_has_them(tmp_path: Path) -> None:
    world = clicks(tmp_path)
    uri, window = f"sqlite:///{tmp_path}/x.db", {"window_days": 3}
    of_bounds = {"kind": "sql", "uri": uri, "query": "select * from t where t >= :start and t < :end", **window}
    of_dates = {"kind": "sql", "uri": uri, "query": "select * from t where day = :date", **window}

    def identities(source: dict[str, Any], **schedule: str) -> list[str]:
        world.document["source"] = source
        world.document["schedule"] = {"cron": "0 5 * * *", **schedule}
        return [
            file.identity
            for day in list_days(world.spec.source, [LAST], world.spec.day_bounds)[1]
            for file in day.files
        ]

    utc = identities(of_bounds)
    assert identities({**of_bounds, "timezone": "UTC"}) == utc
    moved = (identities(of_bounds, timezone="Asia/Tokyo"), identities({**of_bounds, "day_starts": "04:00"}))
    assert utc not in moved
    assert moved[0] != moved[1]
    assert identities(of_dates) == identities(of_dates, timezone="Asia/Tokyo")


def test_duckdb_gives_its_types_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with duckdb.connect(tmp_path / "x.db") as database:
        database.execute("create type mood as enum ('glad', 'sad')")
    query = (
        "select sum(1) as huge, 1.50::decimal(9, 2) as price, 'sad'::mood as mood, [1, 2] as list, date '2026-10-25' as day,"
        " timestamp_ns '2026-10-25 01:02:03' as t, null as nothing where :date = '2026-10-25';"
    )
    columns: dict[str, ColumnType] = {
        "huge": "int64", "price": "float64", "mood": "string", "list": "list<int64>", "day": "date", "t": "timestamp",
        "nothing": "float64",
    }  # fmt: skip
    (row,) = read(f"duckdb:///{tmp_path}/x.db", query, columns, monkeypatch)
    assert row == {
        "huge": 1, "price": 1.5, "mood": "sad", "list": [1, 2], "day": DAY, "t": datetime(2026, 10, 25, 1, 2, 3),
        "nothing": None,
    }  # fmt: skip


def test_duckdb_gives_what_arrow_has_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb.connect(tmp_path / "x.db").close()
    query = (
        "select timestamp_ns '2026-10-25 01:02:03.123456789' as t, '0101'::bit as bits, 7::uhugeint as large, '12'::bignum"
        ' as "a ""b""", 1.5 as other where :date is not null'
    )
    columns: dict[str, ColumnType] = {"bits": "string", "t": "timestamp", "large": "int64", 'a "b"': "string"}
    (row,) = read(f"duckdb:///{tmp_path}/x.db", query, columns, monkeypatch)
    assert row == {"bits": "0101", "t": datetime(2026, 10, 25, 1, 2, 3, 123_456), "large": 7, 'a "b"': "12"}


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "date", "timestamp_s", "timestamp_ns"])
@pytest.mark.parametrize("value", ["infinity", "-infinity"])
def test_a_moment_without_end_is_refused(
    kind: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb.connect(tmp_path / "x.db").close()
    query = f"select '{value}'::timestamp::{kind} as t where :date is not null"
    with pytest.raises(DataRejected, match=r"column t .*a value is infinite.*cast t in source\.query"):
        read(f"duckdb:///{tmp_path}/x.db", query, {"t": "date" if kind == "date" else "timestamp"}, monkeypatch)


def test_an_error_behind_the_first_rows_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb.connect(tmp_path / "x.db").close()
    query = "select if(i = 200000, error('no such row'), i) as id from range(300000) rows(i) where :date is not null"
    with pytest.raises(ConfigurationError, match=r"^source\.query: .*no such row"):
        read(f"duckdb:///{tmp_path}/x.db", query, {"id": "int64"}, monkeypatch)


def test_what_has_changed_is_the_same_in_every_time_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with duckdb.connect(tmp_path / "x.db") as database:
        database.execute(
            "create table t as select timestamptz '2026-10-25 00:30:00+00' as seen, date '2026-10-25' as day"
        )
    monkeypatch.setenv("RATCHET_SOURCE_DATABASE", f"duckdb:///{tmp_path}/x.db")

    def answers(query: str, changed: str) -> set[str]:
        found = set()
        for zone in ("UTC", "America/New_York"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            source = SqlSource(kind="sql", uri="${RATCHET_SOURCE_DATABASE}", query=query, changed=changed)
            found.add(changes(source, {DAY: (START, END)})[DAY])
        return found

    try:
        assert len(answers("select * from t where day = :date", "select max(seen) from t where day = :date")) == 1
        bounded = "select * from t where seen >= :start and seen < :end"
        assert len(answers(bounded, "select max(seen)::text from t where day = :date")) == 1
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_what_is_wrong_with_a_query_is_said_in_one_line(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sqlite3 if kind == "sqlite" else duckdb).connect(tmp_path / "x.db").close()
    uri = f"{kind}:///{tmp_path}/x.db"
    with pytest.raises(ConfigurationError, match=r"^source\.query: .*nothing_such"):
        read(uri, "select nothing_such where :date is not null", {"id": "int64"}, monkeypatch)
    with pytest.raises(DataRejected, match=r"source\.query: column id missing; the file has other"):
        read(uri, "select 1 as other where :date is not null", {"id": "int64"}, monkeypatch)
    if kind == "sqlite":
        with pytest.raises(DataRejected, match="column id mixes types"):
            read(uri, "select 1 as id, :date union all select 'a', ''", {"id": "int64"}, monkeypatch)
        return
    (tmp_path / "x.db").write_bytes(b"no database")
    with pytest.raises(Unavailable, match="does not answer"):
        read(uri, "select 1 as id where :date is not null", {"id": "int64"}, monkeypatch)


READS = """
import sys
from ratchet.contracts.source import SqlSource
from ratchet.runtime.logs import StageLog
from tasks.ingest.sql_source import read_query
from tasks.ingest.traits import SourceTraits
from tests.ingest.test_databases import DAY, END, START

source = SqlSource(kind="sql", uri="${RATCHET_SOURCE_DATABASE}", query="select id from n where :date is not null")
try:
    list(read_query(source, DAY, (START, END), {"id": "int64"}, SourceTraits()))
except Exception as error:
    sys.exit(int(StageLog("ingest").failure(error)))
"""


@needs_strace
def test_a_file_of_sqlite_whose_disk_fails_is_no_fault_of_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table n as select 1 as id")
    monkeypatch.setenv("RATCHET_SOURCE_DATABASE", f"sqlite:///{path}")
    command = [STRACE or "strace", "-f", "-o", tmp_path / "log", "-P", path, "-e", "inject=pread64,read:error=ESTALE"]
    ended = subprocess.run(
        [*command, sys.executable, "-c", READS], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (ended.returncode, "cannot be read now: disk I/O error" in ended.stdout) == (69, True), ended


def test_a_night_of_a_database_reads_its_own_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the stage: each day from 04:00 in Berlin to the next."""
    world: World = clicks(tmp_path)
    path = tmp_path / "clicks.db"
    with duckdb.connect(path) as database:
        database.execute(
            "create table clicks as select i % 9 as query_id, timestamp '2026-11-17' + to_hours(i) as shown_at,"
            " 'DE' as country, 1.5 as price, i % 2 as clicked from range(120) of_hours(i)"
        )
    monkeypatch.setenv("RATCHET_SOURCE_CLICKS", f"duckdb:///{path}")
    query = "select * from clicks where shown_at >= :start and shown_at < :end"
    world.document["source"] = {
        "kind": "sql", "uri": "${RATCHET_SOURCE_CLICKS}", "query": query, "window_days": 3, "timezone": "Europe/Berlin",
        "day_starts": "04:00",
    }  # fmt: skip
    days = summaries.snapshot(world.run("ingest").result).days
    assert [day.file.rows for day in days] == [24, 24, 24]
    world.document["source"]["day_starts"] = "05:00"
    world.log.truncate(0)
    world.run("ingest")
    assert world.log.getvalue().count("ingested") == 3


def night(world: World) -> list[date]:
    """The days that ingest reads."""
    world.log.truncate(0)
    world.log.seek(0)
    world.run("ingest")
    lines = [line for line in world.log.getvalue().splitlines() if "ingested" in line]
    return [day for day in WINDOW if any(str(day) in line for line in lines)]


WINDOW = [LAST - timedelta(days=back) for back in (2, 1, 0)]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_day_is_read_again_when_the_database_says_that_it_has_changed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = clicks(tmp_path)
    path = tmp_path / "clicks.db"
    connect: Any = sqlite3.connect if kind == "sqlite" else duckdb.connect

    def change(*statements: str) -> None:
        connection = connect(path)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()

    row = "(1, '{0} 12:00:00', 'DE', 1.5, 1, '{0}', 1), (2, '{0} 12:00:00', 'DE', 2.5, 0, '{0}', 1)"
    change(
        "create table clicks (query_id bigint, shown_at text, country text, price double, clicked bigint, day text,"
        " updated_at bigint)",
        *(f"insert into clicks values {row.format(day)}" for day in WINDOW),
    )
    monkeypatch.setenv("RATCHET_SOURCE_CLICKS", f"{kind}:///{path}")
    world.document["source"] = source = {
        "kind": "sql", "uri": "${RATCHET_SOURCE_CLICKS}", "query": "select * from clicks where day = :date",
        "changed": "select max(updated_at), count(*) from clicks where day = :date", "window_days": 3,
    }  # fmt: skip
    assert night(world) == WINDOW
    assert night(world) == []
    change(f"update clicks set price = 9, updated_at = 2 where query_id = 1 and day = '{WINDOW[0]}'")
    assert night(world) == WINDOW[:1]
    change(f"delete from clicks where query_id = 2 and day = '{WINDOW[1]}'")
    assert night(world) == WINDOW[1:2]
    world.store.delete(paths.snapshot_index(table_of(world.spec)))
    assert night(world) == []
    del source["changed"]
    assert night(world) == []
    for query, said in (
        ("select day from clicks where day >= :date", "several rows"),
        ("select 1 from clicks where :date is null", "no row"),
    ):
        source["changed"] = query
        with pytest.raises(ConfigurationError, match=rf"source\.changed gives {said} for 2026-11-18"):
            night(world)
    source["changed"] = "select nothing_such where :date is null"
    with pytest.raises(ConfigurationError, match=r"^source\.changed: .*nothing_such"):
        night(world)
