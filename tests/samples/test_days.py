"""All synthetic logs: days depend only on their inputs, are written in one step, and unchanged files are kept."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.loading import load
from ratchet.samples import clicks, payments
from tasks.ingest.schema import arrow_schema

PIPELINES = Path(__file__).resolve().parents[2] / "dags" / "pipelines"
END = date(2026, 3, 10)
KINDS = [
    pytest.param(clicks.write, "clicks", "search-ranking", id="clicks"),
    pytest.param(payments.write, "payments", "payments-fraud", id="payments"),
]
Write = Callable[..., Iterator[Path]]


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(("write", "kind", "_pipeline"), KINDS)
def test_each_day_is_a_file_of_its_own_yielded_in_order(
    tmp_path: Path, write: Write, kind: str, _pipeline: str
) -> None:
    paths = list(write(tmp_path, days=3, rows_per_day=200, end=END, seed=1))
    days = [END - timedelta(days=back) for back in (2, 1, 0)]
    assert paths == [tmp_path / kind / f"date={day}" / "part-0.parquet" for day in days]
    assert list(contents(tmp_path)) == [str(path.relative_to(tmp_path)) for path in paths]


@pytest.mark.parametrize(("write", "_kind", "_pipeline"), KINDS)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(
    tmp_path: Path, write: Write, _kind: str, _pipeline: str
) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        list(write(tmp_path / name, days=2, rows_per_day=300, end=END, seed=seed))
    one, other = contents(tmp_path / "one"), contents(tmp_path / "other")
    assert one == contents(tmp_path / "again")
    assert all(one[name] != other[name] for name in one)


@pytest.mark.parametrize(("write", "_kind", "_pipeline"), KINDS)
def test_a_further_day_does_not_change_earlier_days(tmp_path: Path, write: Write, _kind: str, _pipeline: str) -> None:
    before = {path: path.stat() for path in write(tmp_path, days=3, rows_per_day=300, end=END, seed=1)}
    after = list(write(tmp_path, days=4, rows_per_day=300, end=END + timedelta(days=1), seed=1))
    assert set(before) < set(after)
    for path, stat in before.items():
        now = path.stat()
        assert (now.st_mtime_ns, now.st_ino) == (stat.st_mtime_ns, stat.st_ino)


@pytest.mark.parametrize(("write", "_kind", "_pipeline"), KINDS)
def test_a_damaged_day_is_written_again(tmp_path: Path, write: Write, _kind: str, _pipeline: str) -> None:
    (path,) = write(tmp_path, days=1, rows_per_day=100, end=END, seed=1)
    good = path.read_bytes()
    path.write_bytes(good[:50])
    list(write(tmp_path, days=1, rows_per_day=100, end=END, seed=1))
    assert contents(tmp_path) == {str(path.relative_to(tmp_path)): good}


@pytest.mark.parametrize(("write", "_kind", "pipeline"), KINDS)
def test_columns_and_types_are_those_of_the_pipeline(tmp_path: Path, write: Write, _kind: str, pipeline: str) -> None:
    (path,) = write(tmp_path, days=1, rows_per_day=100, end=END, seed=1)
    spec = load(PIPELINES / pipeline / "pipeline.yaml")
    assert pq.read_schema(path).remove_metadata() == arrow_schema(spec.source_columns)


@pytest.mark.parametrize(("write", "_kind", "_pipeline"), KINDS)
@pytest.mark.parametrize("rows", [1, 7, 100, 5000])
def test_a_day_of_any_size_has_about_the_rows_asked_for_all_inside_the_day(
    tmp_path: Path, write: Write, _kind: str, _pipeline: str, rows: int
) -> None:
    (path,) = write(tmp_path, days=1, rows_per_day=rows, end=END, seed=1)
    table = pq.read_table(path, partitioning=None)
    assert abs(table.num_rows - rows) <= 0.05 * rows
    (moment,) = (field.name for field in table.schema if pa.types.is_timestamp(field.type))
    assert {value.date() for value in table[moment].to_pylist()} == {END}


@pytest.mark.parametrize(("write", "_kind", "_pipeline"), KINDS)
@pytest.mark.parametrize("wrong", [{"days": 0}, {"rows_per_day": 0}])
def test_nothing_to_write_is_refused(
    tmp_path: Path, write: Write, _kind: str, _pipeline: str, wrong: dict[str, int]
) -> None:
    asked = {"days": 1, "rows_per_day": 10} | wrong
    with pytest.raises(ConfigurationError, match="below 1"):
        list(write(tmp_path, **asked, end=END, seed=1))
    assert contents(tmp_path) == {}
