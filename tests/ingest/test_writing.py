from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.store.artifacts import sha256_file
from tasks.ingest import writing
from tasks.ingest.writing import ROW_GROUP, rows_at_once, write

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])


def table(count: int) -> pa.Table:
    return pa.table({"a": list(range(count)), "b": [f"v{i % 11}" if i % 7 else None for i in range(count)]}, SCHEMA)


@settings(deadline=None, max_examples=20)
@given(cuts=st.lists(st.integers(0, 1000), max_size=6), step=st.integers(1, 400))
def test_the_same_rows_give_the_same_bytes_whatever_the_batches(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], step: int
) -> None:
    folder = tmp_path_factory.mktemp("written")
    rows = table(1000)
    edges = [0, *sorted(cuts), 1000]
    pieces = [batch for low, high in pairwise(edges) for batch in rows.slice(low, high - low).to_batches(step)]
    whole = write(rows.to_batches(), SCHEMA, folder / "whole.parquet")
    cut = write(pieces, SCHEMA, folder / "cut.parquet")
    assert cut.sha256 == whole.sha256
    assert cut.rows == 1000


def test_row_groups_have_a_fixed_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP", 100)
    written = write(table(1050).to_batches(70), SCHEMA, tmp_path / "day.parquet")
    found = pq.ParquetFile(written.path).metadata
    assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [100] * 10 + [50]
    assert pq.read_table(written.path).equals(table(1050))
    assert ROW_GROUP == 131_072


def test_the_digest_is_that_of_the_file_and_no_byte_depends_on_the_time(tmp_path: Path) -> None:
    written = write(table(10).to_batches(), SCHEMA, tmp_path / "day.parquet")
    assert written.sha256 == sha256_file(written.path)
    assert written.bytes == written.path.stat().st_size
    assert pq.ParquetFile(written.path).metadata.metadata is None


def test_a_day_without_rows_is_a_file_without_rows(tmp_path: Path) -> None:
    written = write([], SCHEMA, tmp_path / "day.parquet")
    assert written.rows == 0
    assert pq.read_table(written.path).schema == SCHEMA


def test_wide_rows_have_smaller_row_groups_whatever_the_batches(tmp_path: Path) -> None:
    wide = pa.table({"text": pa.array([[0.5] * 6400] * 3000, pa.list_(pa.float64()))})
    digests = {}
    for step in (700, 2900):
        written = write(wide.to_batches(step), wide.schema, tmp_path / f"{step}.parquet")
        found = pq.ParquetFile(written.path).metadata
        assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [1310, 1310, 380]
        digests[step] = written.sha256
    assert len({*digests.values()}) == 1
    assert rows_at_once(64) == ROW_GROUP
    assert rows_at_once(10**9) == 1024
