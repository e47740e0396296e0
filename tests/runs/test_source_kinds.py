"""Every kind of source through all stages, with each runner: the same rows give the same snapshot, byte for byte."""

import json
import random
import subprocess
import uuid
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.contracts.labels import Label
from ratchet.contracts.source import SqlSource
from ratchet.contracts.time_zones import day_bounds
from ratchet.runs.history import runs_of
from ratchet.runs.outcomes import outcomes
from ratchet.store.opening import open_store
from tasks.ingest.sql_source import read_query
from tasks.ingest.traits import SourceTraits
from tests.runs.nights import CallResult, ratchet
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
LAST = date(2026, 3, 20)
DAYS = [LAST - timedelta(days=back) for back in range(5, -1, -1)]
SETTINGS = {
    "name": "kinds",
    "columns": {
        "shop": {"role": "group", "type": "int64"},
        "paid_at": {"role": "time", "type": "timestamp"},
        "country": {"role": "categorical", "type": "string"},
        "price": {"role": "numeric", "type": "float64"},
        "fraud": {"role": "label", "type": "int64"},
    },
    "validate": {"volume": None, "drift": None},
    "train": {"objective": "binary", "epochs": 1},
}
QUERY = "select shop, paid_at, country, price, fraud from payments where day = :date"
JOINED = "select shop, paid_at, country from payments where day = :date"
JOIN = {"on": ["shop"], "time": "paid_at", "within": "1d", "columns": ["country"]}
FILE_KINDS = ("parquet", "csv", "csv.gz", "delta", "sqlite", "duckdb")
pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("source kinds")]


def rows(day: date) -> pd.DataFrame:
    """A day, in the order in which ingest puts the rows of a query."""
    chance = random.Random(day.toordinal())
    noon = datetime(day.year, day.month, day.day, 12)
    frame = pd.DataFrame(
        {
            "shop": [i // 10 for i in range(300)],
            "paid_at": [noon + timedelta(seconds=i % 7) for i in range(300)],
            "country": [chance.choice(["DE", "FR", None]) for _ in range(300)],
            "price": [round(chance.uniform(1, 90), 2) for _ in range(300)],
            "fraud": [int(chance.random() < 0.3) for _ in range(300)],
        }
    )
    return frame.sort_values(list(frame.columns), na_position="last").reset_index(drop=True)


def put_in_database(uri: str) -> None:
    """All days, with the rows in an order of chance."""
    engine = sqlalchemy.create_engine(uri)
    with engine.begin() as connection:
        for day in DAYS:
            frame = rows(day).sample(frac=1, random_state=7).assign(day=day.isoformat())
            frame.to_sql("payments", connection, if_exists="append", index=False)
    engine.dispose()


@pytest.fixture(scope="module")
def network() -> str:
    """The name of the network on which PostgreSQL is, and of its container."""
    return f"ratchet-test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def postgresql(network: str) -> Iterator[str]:
    """The URL of a PostgreSQL with the days."""
    subprocess.run([ROOT / "scripts" / "engine.sh"], check=True, capture_output=True)
    listed = subprocess.run([ROOT / "docker" / "offline" / "servers.sh"], check=True, capture_output=True, text=True)
    (image,) = [line.split(": ")[0] for line in listed.stdout.splitlines() if line.startswith("postgres:")]
    name, label = network, f"{Label.TEST}=1"
    docker("network", "create", "--internal", "--label", label, name)
    try:
        docker(
            "run", "--detach", "--rm", "--name", name, "--network", name, "--label", label, "--memory", "512m", "--cpus", "1",
            "--env", "POSTGRES_PASSWORD=a-secret@of/this:test", image,
        )  # fmt: skip
        (found,) = json.loads(docker("inspect", name))
        uri = f"postgresql+psycopg://postgres:a-secret%40of%2Fthis%3Atest@{found['NetworkSettings']['Networks'][name]['IPAddress']}/postgres"
        until(lambda: answers(uri), seconds=120, every=0.5)
        put_in_database(uri)
        yield uri
    finally:
        subprocess.run(["docker", "rm", "--force", "--volumes", name], capture_output=True, check=False)
        docker("network", "rm", name)


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def answers(uri: str) -> bool:
    engine = sqlalchemy.create_engine(uri, connect_args={"connect_timeout": 5})
    try:
        with engine.connect() as connection:
            return bool(connection.scalar(sqlalchemy.text("select 1")))
    except sqlalchemy.exc.OperationalError:
        return False
    finally:
        engine.dispose()


def source_of(kind: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Write the days in one kind of source; its part of the pipeline file, and the URL of a database."""
    folder.mkdir(parents=True)
    writers: dict[str, Callable[[date, pd.DataFrame], Any]] = {
        "parquet": lambda day, frame: pq.write_table(pa.Table.from_pandas(frame), folder / f"{day}.parquet"),
        "csv": lambda day, frame: frame.to_csv(folder / f"{day}.csv", index=False),
        "csv.gz": lambda day, frame: frame.to_csv(folder / f"{day}.csv.gz", index=False),
        "delta": lambda day, frame: pl.from_pandas(frame).with_columns(date=pl.lit(day)).write_delta(
            str(folder), mode="append", delta_write_options={"partition_by": ["date"]}
        ),
    }  # fmt: skip
    if kind in writers:
        for day in DAYS:
            writers[kind](day, rows(day))
        if kind == "delta":
            return {"kind": "delta", "uri": str(folder), "window_days": len(DAYS)}, ""
        return {"kind": "files", "uri": f"{folder}/{{date}}.{kind}", "window_days": len(DAYS)}, ""
    uri = f"{kind}:///{folder / 'payments.db'}"
    put_in_database(uri)
    return sql_source(kind), uri


def variable(kind: str) -> str:
    """The variable with the URL of a database. Another name is another source, which ingest has not read yet."""
    return f"RATCHET_SOURCE_{kind.upper().replace('.', '_')}"


def sql_source(kind: str) -> dict[str, Any]:
    return {"kind": "sql", "uri": f"${{{variable(kind)}}}", "query": QUERY, "window_days": len(DAYS)}


def run(
    folder: Path,
    source: dict[str, Any],
    store: Path,
    runner: str,
    joins: dict[str, Any] | None = None,
    **environment: str,
) -> CallResult:
    """All stages for the last day."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yaml").write_text(json.dumps({**SETTINGS, "source": source, "joins": joins or {}}))
    asked = ("run", str(folder), "--store", str(store), "--runner", runner, "--date", LAST.isoformat(), "--json")
    return ratchet(*asked, environment=environment)


def check(ended: CallResult, store: Path) -> str:
    """That all stages ended well, and ingest read its source; the content of its snapshot."""
    assert ended.code == 0, ended.err
    stages = {stage["name"]: stage for stage in ended.json["stages"]}
    assert set(stages) >= {"ingest", "validate", "features", "train", "evaluate", "report"}
    assert stages["ingest"]["cached"] is False
    opened = open_store(str(store))
    found = outcomes(opened, "kinds", runs_of(opened, "kinds", LAST)[-1])
    assert found["ingest"].content is not None
    return found["ingest"].content


def test_every_kind_of_source_goes_through_all_stages_as_processes(postgresql: str, tmp_path: Path) -> None:
    store, contents = tmp_path / "store", {}
    for kind in FILE_KINDS:
        source, uri = source_of(kind, tmp_path / kind)
        contents[kind] = check(run(tmp_path / "kinds", source, store, "process", **{variable(kind): uri}), store)
    settings = {variable("postgresql"): postgresql}
    ended = run(tmp_path / "kinds", sql_source("postgresql"), store, "process", **settings)
    contents["postgresql"] = check(ended, store)
    assert len(set(contents.values())) == 1, contents


def of_postgresql(
    uri: str, query: str, columns: dict[str, ColumnType], monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """The rows of a query for the day that begins at 04:00 in UTC."""
    monkeypatch.setenv(variable("postgresql"), uri)
    source = SqlSource(kind="sql", uri=f"${{{variable('postgresql')}}}", query=query)
    bounds = day_bounds(LAST, "UTC", "04:00")
    return [row for batch in read_query(source, LAST, bounds, columns, SourceTraits()) for row in batch.to_pylist()]


def test_postgresql_gives_its_types_as_they_are(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "whole": "7::smallint", "large": "sum(7::bigint) over ()", "price": "1.50::numeric", "real": "0.5::real",
        "yes": "true", "name": "'a'::char(3)", "day": "date '2026-03-20'", "nothing": "null",
        "t": "timestamptz '2026-03-20 04:00:00+02'", "naive": "timestamp '2026-03-20 04:00:00'",
    }  # fmt: skip
    columns: dict[str, ColumnType] = {
        "whole": "int64", "large": "int64", "price": "float64", "real": "float64", "yes": "bool", "name": "string",
        "day": "date", "nothing": "string", "t": "timestamp", "naive": "timestamp",
    }  # fmt: skip
    listed = ", ".join(f"{value} as {name}" for name, value in values.items())
    expected = {
        "whole": 7, "large": 7, "price": 1.5, "real": 0.5, "yes": True, "name": "a  ", "day": LAST, "nothing": None,
        "t": datetime(2026, 3, 20, 2), "naive": datetime(2026, 3, 20, 4),
    }  # fmt: skip
    query = f"select {listed} where ':date' <> :date; -- of :date"
    assert of_postgresql(postgresql, query, columns, monkeypatch) == [expected]
    # With a column that ADBC does not give whole, all of them come as rows.
    query = f"select {listed}, array[1, 2] as list, '[3]'::jsonb as json where '%' <> :date"
    lists: dict[str, ColumnType] = {"list": "list<int64>", "json": "list<int64>"}
    assert of_postgresql(postgresql, query, {**columns, **lists}, monkeypatch) == [
        {**expected, "list": [1, 2], "json": [3]}
    ]
    for value, kind in (
        ("timestamp 'infinity'", "timestamp"),
        ("date '-infinity'", "date"),
        ("'nan'::numeric", "float64"),
    ):
        with pytest.raises(DataRejected, match="column x mixes types"):
            of_postgresql(postgresql, f"select {value} as x where :date <> ''", {"x": kind}, monkeypatch)
    with pytest.raises(DataRejected, match="column x"):
        of_postgresql(postgresql, "select array[[1], [2]] as x where :date <> ''", {"x": "list<int64>"}, monkeypatch)
    with pytest.raises(ConfigurationError, match=r'^source\.query: column "nothing_such" does not exist; to do'):
        of_postgresql(postgresql, "select nothing_such as x where :date <> ''", {"x": "int64"}, monkeypatch)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("also", ["", ", array[1] as list"])
def test_a_day_of_postgresql_begins_and_ends_at_its_moments(
    postgresql: str, zone: str, also: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By both drivers, whatever the zone of the server is."""
    uri = f"{postgresql}?options=-c%20TimeZone%3D{zone}"
    moments = "(values (1, '2026-03-20 03:59:59'), (2, '2026-03-20 04:00:00'), (3, '2026-03-21 03:59:59.999999'), (4, '2026-03-21 04:00'))"
    for kind, column in (("timestamp", "m::timestamp"), ("timestamptz", "(m || '+00')::timestamptz")):
        query = f"select * from (select i, {column} as t{also} from {moments} as of_values (i, m)) x where t >= :start and t < :end"
        columns: dict[str, ColumnType] = {"i": "int64", "t": "timestamp", **({"list": "list<int64>"} if also else {})}
        found = of_postgresql(uri, query, columns, monkeypatch)
        assert [row["i"] for row in found] == [2, 3], kind
        assert found[0]["t"] == datetime(2026, 3, 20, 4), kind


@pytest.mark.docker
def test_every_kind_of_source_goes_through_all_stages_in_containers(
    postgresql: str, network: str, stage_image: str, tmp_path: Path
) -> None:
    store, contents = tmp_path / "store", {}
    for kind in FILE_KINDS:
        source, uri = source_of(kind, tmp_path / kind)
        settings = {variable(kind): uri, "RATCHET_STAGE_IMAGE": stage_image}
        ended = run(tmp_path / "kinds", source, store, "docker", **settings)
        contents[kind] = check(ended, store)
    settings = {
        variable("postgresql"): postgresql,
        variable("duckdb"): f"duckdb:///{tmp_path / 'duckdb' / 'payments.db'}",
        "RATCHET_STAGE_IMAGE": stage_image,
        "RATCHET_STAGE_NETWORK": network,
    }
    assert len(set(contents.values())) == 1, contents
    # two databases with secrets of their own, one on a network and one in a folder: the second one has the country
    joined = {"source": {"kind": "sql", "uri": f"${{{variable('duckdb')}}}", "query": JOINED}, **JOIN}
    ended = run(tmp_path / "kinds", sql_source("postgresql"), store, "docker", joins={"countries": joined}, **settings)
    check(ended, store)
    opened = open_store(str(store))
    log = outcomes(opened, "kinds", runs_of(opened, "kinds", LAST)[-1])["ingest"].log
    assert log is not None
    assert b"joins.countries: 100 % of 1,800 rows found a row that was known at their time" in opened.read(log)


def test_a_database_that_does_not_answer_is_reported_without_its_password(tmp_path: Path) -> None:
    uri = "postgresql+psycopg://me:hunter2@127.0.0.1:1/payments"
    ended = run(
        tmp_path / "kinds", sql_source("payments"), tmp_path / "store", "process", **{variable("payments"): uri}
    )
    assert ended.code == 69
    assert "the database '${RATCHET_SOURCE_PAYMENTS}' does not answer" in ended.json["error"]["cause"]
    assert "hunter2" not in ended.out + ended.err


@pytest.mark.parametrize(
    ("uri", "cause"),
    [
        ("sqlite:///payments.db", "a database of sqlite needs the full path of its file"),
        ("sqlite://", "a database of sqlite needs the full path of its file"),
        ("duckdb:////nowhere/payments.db", "the duckdb database '${RATCHET_SOURCE_PAYMENTS}' does not exist"),
        ("payments", "it is not the URL of a database"),
    ],
)
def test_a_database_that_no_stage_can_open_is_a_configuration_error(tmp_path: Path, uri: str, cause: str) -> None:
    ended = run(
        tmp_path / "kinds", sql_source("payments"), tmp_path / "store", "process", **{variable("payments"): uri}
    )
    assert ended.code == 64
    assert cause in ended.json["error"]["cause"]
