"""The rows of a query have one order, whatever the database returns first, and memory is bounded."""

import math
import random
import sqlite3
import subprocess
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts import summaries
from tasks.ingest.row_order import in_order
from tasks.ingest.writing import write
from tests.world import LAST, clicks

SCHEMA = pa.schema(
    [
        ("a b", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us")),
        ("d", pa.date32()),
        ("i", pa.int64()),
    ]
)
ROW = st.tuples(
    st.none() | st.sampled_from([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan]),
    st.none() | st.sampled_from(["", "a", "A", "ä", "\0", 'say "so"', "a" * 50]),
    st.none() | st.booleans(),
    st.none() | st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1)),
    st.none() | st.dates(min_value=date(1900, 1, 1)),
    st.none() | st.integers(min_value=-(2**63), max_value=2**63 - 1),
)


def batches(rows: list[tuple[Any, ...]], size: int) -> list[Any]:
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(SCHEMA)]
    return pa.Table.from_arrays(columns, schema=SCHEMA).to_batches(max_chunksize=size)


@given(rows=st.lists(ROW, max_size=12), size=st.integers(min_value=1, max_value=5), seed=st.integers(0, 99))
def test_any_order_of_the_same_rows_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]], size: int, seed: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    other = random.Random(seed).sample(rows, len(rows))
    first = write(in_order(batches(rows, size), SCHEMA, folder / "sort"), SCHEMA, folder / "first.parquet")
    second = write(in_order(batches(other, 2), SCHEMA, folder / "sort"), SCHEMA, folder / "second.parquet")
    assert first.sha256 == second.sha256
    assert first.rows == len(rows)


def test_columns_whose_names_differ_in_capitals_alone_are_two(tmp_path: Path) -> None:
    schema = pa.schema([("price", pa.float64()), ("Price", pa.int64())])
    batch = pa.RecordBatch.from_pydict({"price": [2.0, 1.0], "Price": [5, 6]}, schema=schema)
    (found,) = in_order([batch], schema, tmp_path / "sort")
    assert found.schema == schema
    assert found.to_pydict() == {"price": [1.0, 2.0], "Price": [6, 5]}


def test_a_row_is_not_changed(tmp_path: Path) -> None:
    rows = [(-0.0, "\0", None, datetime(2026, 11, 20, 12, 0, 0, 1), date(2026, 11, 20), 2**63 - 1)]
    (found,) = in_order(batches(rows, 1), SCHEMA, tmp_path)
    assert tuple(found.to_pylist()[0].values()) == rows[0]
    assert math.copysign(1, found.column("a b")[0].as_py()) == -1


def test_an_error_of_the_rows_is_raised_as_it_is(tmp_path: Path) -> None:
    def broken() -> Any:
        yield from batches([(1.0, "a", True, None, None, 1)], 1)
        raise LookupError("the query")

    with pytest.raises(LookupError, match="the query"):
        list(in_order(broken(), SCHEMA, tmp_path))


BIG = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from tasks.ingest.row_order import in_order
text = pa.array([f"{i * 2654435761 % 2**32:08x}" * 12 for i in range(65536)])
schema = pa.schema([("text", pa.string()), ("n", pa.int64())])
batches = (pa.record_batch([text, pa.array(range(n * 65536, (n + 1) * 65536))], schema=schema) for n in range(100))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(batch.num_rows for batch in in_order(batches, schema, Path(sys.argv[1])))
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_a_day_that_is_larger_than_the_memory_of_the_sort_goes_to_the_disk(tmp_path: Path) -> None:
    """About 700 MB of rows within 256 MiB, and some for what DuckDB does not count."""
    ended = subprocess.run([sys.executable, "-c", BIG, tmp_path / "sort"], capture_output=True, text=True, check=True)
    rows, mebibytes = map(int, ended.stdout.split())
    assert rows == 6_553_600
    assert mebibytes < 450


def test_a_database_that_returns_rows_in_another_order_gives_the_same_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = set()
    for order in ("asc", "desc"):
        world = clicks(tmp_path / order)
        path = tmp_path / order / "clicks.sqlite"
        connection = sqlite3.connect(path)
        connection.execute("create table clicks (query_id, shown_at, country, price, clicked)")
        values = [(i % 9, "2026-11-20 12:00:00", "DE", i % 7 + 0.5, i % 2) for i in range(200)]
        for row in values if order == "asc" else values[::-1]:
            connection.execute("insert into clicks values (?, ?, ?, ?, ?)", row)
        connection.commit()
        connection.close()
        monkeypatch.setenv("RATCHET_SOURCE_CLICKS", f"sqlite:///{path}")
        query = "select * from clicks where :date is not null"
        world.document["source"] = {"kind": "sql", "uri": "${RATCHET_SOURCE_CLICKS}", "query": query, "window_days": 3}
        contents.add(world.run("ingest").result.content)
    assert len(contents) == 1


def test_a_day_without_rows_in_a_database_is_read_again_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = clicks(tmp_path)
    connection = sqlite3.connect(tmp_path / "clicks.sqlite")
    connection.execute("create table clicks (day, query_id, shown_at, country, price, clicked)")
    put = "insert into clicks values (?, 1, '2026-11-20 12:00:00', 'DE', 1.5, 1)"
    connection.execute(put, [str(LAST)])
    connection.commit()
    monkeypatch.setenv("RATCHET_SOURCE_CLICKS", f"sqlite:///{tmp_path / 'clicks.sqlite'}")
    query = "select * from clicks where day = :date"
    world.document["source"] = {
        "kind": "sql", "uri": "${RATCHET_SOURCE_CLICKS}", "query": query, "window_days": 3, "missing_days": "skip",
    }  # fmt: skip
    first = summaries.snapshot(world.run("ingest").result)
    assert (len(first.days), len(first.missing)) == (1, 2)
    connection.execute(put, [str(first.missing[0])])
    connection.commit()
    connection.close()
    assert len(summaries.snapshot(world.run("ingest").result).days) == 2
