"""Lists and vectors of a source: Parquet, CSV and JSON lines give the same bytes, and what is no list one clear line."""

import gzip
import json
import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import DataRejected
from tasks.ingest.declared import to_snapshot
from tasks.ingest.reading import read
from tasks.ingest.row_order import in_order
from tasks.ingest.schema import arrow_schema
from tasks.ingest.traits import SourceTraits
from tasks.ingest.writing import write

DAY = date(2026, 1, 1)
COLUMNS: dict[str, ColumnType] = {
    "at": "timestamp",
    "day": "date",
    "seen": "list<int64>",
    "tags": "list<string>",
    "text": "list<float64>",
    "price": "float64",
}
ROWS: list[dict[str, Any]] = [
    {"seen": [1, 2], "tags": ["a"], "text": [1.5], "price": 1.0},
    {"seen": [], "tags": None, "text": [2.0], "price": 2.0},
    {"seen": None, "tags": [], "text": None, "price": None},
    {"seen": [3], "tags": ["b, c", '"'], "text": [-0.0], "price": 3.0},
]


def as_parquet(path: Path, integers: Any) -> None:
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    at = {"at": [datetime(2026, 1, 1, 3)] * len(ROWS), "day": [DAY] * len(ROWS)}
    table = pa.table({**at, **columns, "more": [1] * len(ROWS)})
    pq.write_table(table.set_column(2, "seen", pa.array(columns["seen"], integers)), path)


def as_csv(path: Path) -> None:
    def field(value: Any) -> str:
        return "" if value is None else '"{}"'.format(json.dumps(value).replace('"', '""'))

    lines = [",".join(["2026-01-01T03:00:00", "2026-01-01", *map(field, row.values())]) for row in ROWS]
    path.write_text("\n".join(["at,day,seen,tags,text,price", *lines]) + "\n", encoding="utf-8")


def as_lines(path: Path) -> None:
    rows = [{"at": "2026-01-01T03:00:00", "day": "2026-01-01", **row} for row in ROWS]
    del rows[1]["tags"]
    text = "\n".join(json.dumps(row) for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else b"\xef\xbb\xbf" + text)


def digest(path: Path, columns: dict[str, ColumnType] = COLUMNS) -> str:
    batches = read(path, day=DAY, name=path.name, columns=columns, traits=SourceTraits())
    return write(batches, arrow_schema(columns), path.with_name("day.parquet")).sha256


def test_every_kind_of_file_gives_the_same_bytes(tmp_path: Path) -> None:
    as_parquet(tmp_path / "a.parquet", pa.list_(pa.int32()))
    as_parquet(tmp_path / "large.parquet", pa.large_list(pa.int64()))
    as_csv(tmp_path / "a.csv")
    as_lines(tmp_path / "a.jsonl")
    as_lines(tmp_path / "a.jsonl.gz")
    names = ("a.parquet", "large.parquet", "a.csv", "a.jsonl", "a.jsonl.gz")
    assert len({digest(tmp_path / name) for name in names}) == 1
    kept = pq.read_table(tmp_path / "day.parquet").drop_columns(["at", "day"]).to_pylist()
    assert kept == ROWS


LINES = {
    '{"seen": [1, null]}': "column seen is .*: a value in a list is missing; leave it out, or make the list missing",
    '{"seen": 3}': "changed from array to number.* to do: deliver seen as array on every line",
    '{"seen": [1.5]}': "couldn't parse:1.5; to do: correct the value",
    '{"seen": [1]': "cannot be read as JSON lines: .*; to do: deliver an object on each line",
    '{"other": [1]}': "column seen missing; the file has other; to do: deliver seen",
    '[{"seen": [1]}]': "is no object; to do: deliver an object on each line",
    '{"seen": [1]}\n[2]': "'\\[2\\]' is no object; to do: deliver an object on each line",
}
CSV = {
    '"[1, ""a""]"': "values of several kinds in a list",
    "3": "3 is no list in JSON, as in \\[1, 2\\]",
    "abc": "'abc' is no list in JSON",
    '"[9223372036854775808]"': "a number in a list is beyond the range of int64",
    '"' + "[" * 9000 + '"': "is no list in JSON",
    '"[1, null]"': "a value in a list is missing",
    '"[1.5]"': "Float value 1.5",
    '"[[1]]"': "another kind of value",
}


@pytest.mark.parametrize(("name", "text", "said"), [
    *(("a.jsonl", line, said) for line, said in LINES.items()),
    *(("a.csv", f"seen\n{field}\n", said) for field, said in CSV.items()),
])  # fmt: skip
def test_what_is_no_list_is_refused_in_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataRejected) as caught:
        digest(tmp_path / name, {"seen": "list<int64>"})
    assert re.search(said, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_a_value_of_a_file_of_parquet_that_is_no_list_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"seen": ["[1]"]}), tmp_path / "a.parquet")
    with pytest.raises(DataRejected, match=r"column seen is string, declared list<int64>: .* a list is needed"):
        digest(tmp_path / "a.parquet", {"seen": "list<int64>"})


def test_vectors_of_a_fixed_size_are_lists_and_missing_ones_among_them_have_a_remedy(tmp_path: Path) -> None:
    fixed = pa.list_(pa.float32(), 2)
    pq.write_table(pa.table({"text": pa.array([[1, 2], [3, 4]], fixed)}), tmp_path / "a.parquet")
    digest(tmp_path / "a.parquet", {"text": "list<float64>"})
    assert pq.read_table(tmp_path / "day.parquet")["text"].to_pylist() == [[1, 2], [3, 4]]
    pq.write_table(pa.table({"text": pa.array([[1, 2], None], fixed)}), tmp_path / "a.parquet")
    with pytest.raises(DataRejected, match="deliver vectors that may be missing as lists, not as lists of a fixed"):
        digest(tmp_path / "a.parquet", {"text": "list<float64>"})


def test_rows_of_a_query_have_one_order_also_by_their_lists(tmp_path: Path) -> None:
    columns: dict[str, ColumnType] = {"seen": "list<int64>", "text": "list<float64>"}
    rows = [
        {"seen": [2], "text": [0.0]},
        {"seen": [2], "text": [-0.0]},
        {"seen": None, "text": []},
        {"seen": [], "text": None},
    ]
    found = []
    for order in (rows, rows[::-1]):
        batch = pa.RecordBatch.from_pylist(
            order, pa.schema([("seen", pa.list_(pa.int64())), ("text", pa.list_(pa.float64()))])
        )
        cast = to_snapshot(batch.slice(1), DAY, "q", columns, SourceTraits())
        first = to_snapshot(batch.slice(0, 1), DAY, "q", columns, SourceTraits())
        sorted_ = list(in_order([first, cast], arrow_schema(columns), tmp_path / "sort"))
        found.append(write(sorted_, arrow_schema(columns), tmp_path / "day.parquet").sha256)
    assert found[0] == found[1]
