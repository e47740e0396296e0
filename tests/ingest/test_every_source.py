"""What holds for every kind of source: the same rows, a day that is late, rewritten or cut, and a store that is busy."""

import sqlite3
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import (
    ConfigurationError,
    DataRejected,
    RatchetError,
    SourceChanged,
    Unavailable,
)
from ratchet.store.opening import open_store
from tests.s3 import S3Server
from tests.s3_faults import faulty
from tests.world import LAST, World, clicks, rows

KINDS = ("parquet", "csv", "jsonl.zst", "s3 parquet", "s3 jsonl.zst", "delta", "sqlite", "duckdb")


class Source:
    """One day in a source of a kind. place: the file or the table that has it."""

    def __init__(self, kind: str, world: World, bucket: str) -> None:
        self.kind, self.world, self.bucket = kind.removeprefix("s3 "), world, bucket if kind.startswith("s3 ") else ""
        self.place = world.folder / ("table" if kind == "delta" else f"rows.{self.kind}")
        source: dict[str, Any] = {"window_days": 3, "missing_days": "skip"}
        if self.bucket:
            source |= {"kind": "files", "uri": f"{self.bucket}/{{date}}.{self.kind}"}
        elif kind == "delta":
            source |= {"kind": "delta", "uri": str(self.place)}
        elif kind in {"sqlite", "duckdb"}:
            query = "select * from clicks where day >= :start and day < :end"
            source |= {"kind": "sql", "uri": "${RATCHET_SOURCE_CLICKS}", "query": query}
        else:
            source |= {"kind": "files", "uri": f"{world.folder}/{{date}}.{self.kind}"}
            self.place = world.folder / f"{LAST}.{self.kind}"
        world.document["source"] = source

    def put(self, day: date, table: pa.Table) -> None:
        """Make this the only day of the source, whole."""
        frame = pl.DataFrame(pl.from_arrow(table))
        plain = frame.with_columns(pl.col("shown_at").dt.to_string("%Y-%m-%dT%H:%M:%S%.f"))
        match self.kind.partition(".")[0]:
            case "parquet":
                pq.write_table(table, self.place)
            case "csv":
                _packed(self.place, frame.write_csv())
            case "jsonl":
                _packed(self.place, plain.write_ndjson())
            case "delta":
                frame.with_columns(date=pl.lit(day)).write_delta(
                    str(self.place), mode="overwrite", delta_write_options={"partition_by": ["date"]}
                )
            case _:
                self._put_in_database(day, plain)
        if self.bucket:
            open_store(self.bucket).upload(self.place, f"{day}.{self.kind}")
        elif self.world.document["source"]["kind"] == "files" and day != LAST:
            self.place.rename(self.place.with_name(f"{day}.{self.kind}"))

    def _put_in_database(self, day: date, frame: pl.DataFrame) -> None:
        self.place.unlink(missing_ok=True)
        open_: Callable[[Path], Any] = sqlite3.connect if self.kind == "sqlite" else duckdb.connect
        connection = open_(self.place)
        times = "timestamp" if self.kind == "duckdb" else "text"
        connection.execute(
            f"create table clicks (query_id bigint, shown_at text, country text, price double, clicked bigint, day {times})"
        )
        values = [(*row, f"{day} 12:00:00") for row in frame.rows()]
        connection.executemany("insert into clicks values (?, ?, ?, ?, ?, ?)", values)
        connection.commit()
        connection.close()

    def cut(self) -> None:
        """Leave the first half of the file that has the rows."""
        path = next(self.place.rglob("*.parquet")) if self.kind == "delta" else self.place
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        if self.bucket:
            open_store(self.bucket).upload(path, f"{LAST}.{self.kind}")


def _packed(path: Path, text: str) -> None:
    codec = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    with pa.output_stream(str(path), compression=codec) as stream:
        stream.write(text.encode())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return clicks(tmp_path)


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest, world: World, s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> Source:
    made = Source(request.param, world, s3_uri)
    monkeypatch.setenv("RATCHET_SOURCE_CLICKS", f"{made.kind}:///{made.place}")
    return made


def held(world: World, planned: Any = None) -> pa.Table:
    """The rows of the data date as ingest has them, in the order of their values."""
    day = summaries.snapshot(world.run("ingest", planned=planned).result).days[-1]
    return ordered(pq.read_table(world.store.local(day.file.key)))


def ordered(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names])


def whole(count: int = 60) -> pa.Table:
    return pa.table(rows(count, LAST))


def test_a_day_has_the_same_rows_and_another_night_takes_those_that_were_rewritten(source: Source) -> None:
    source.put(LAST, whole())
    planned = source.world.plan()
    assert held(source.world).equals(ordered(whole()))
    source.put(LAST, whole(44))
    if source.world.document["source"]["kind"] == "sql":  # a database does not say that rows have changed
        assert held(source.world).num_rows == 60
        again = source.world.run("ingest", parts={"rebuild": "run-9"})
        assert summaries.snapshot(again.result).rows == 44
        return
    source.world.document["name"] = "others"  # which hold nothing of the day yet
    with pytest.raises(SourceChanged, match=r"changed.* after the run was planned"):
        held(source.world, planned)
    assert held(source.world).equals(ordered(whole(44)))


def test_a_day_that_is_late_is_missed_by_name_and_read_when_it_is_there(source: Source) -> None:
    source.put(date(2026, 11, 19), pa.table(rows(60, date(2026, 11, 19))))
    with pytest.raises(DataRejected, match=f"{LAST}: the source has no (files|rows) for the data date"):
        held(source.world)
    source.put(LAST, whole())
    assert held(source.world).equals(ordered(whole()))


def test_a_day_that_was_cut_is_refused_by_name(source: Source) -> None:
    source.put(LAST, whole(600))
    source.cut()
    with pytest.raises(RatchetError) as error:
        held(source.world)
    of_files = source.world.document["source"]["kind"] == "files"
    is_database = source.world.document["source"]["kind"] == "sql"
    assert isinstance(error.value, Unavailable | ConfigurationError if is_database else DataRejected)
    assert (f"{LAST}.{source.kind}" if of_files else "source." if is_database else "table") in error.value.cause
    assert "\n" not in str(error.value)
    source.put(LAST, whole())
    assert held(source.world).equals(ordered(whole()))


@pytest.fixture
def busy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The faults of the next requests to S3."""
    with faulty(s3.endpoint) as (address, faults):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        yield faults


@pytest.mark.parametrize("fault", ["503", "cut", "lose"])
def test_an_answer_of_s3_that_fails_once_is_asked_for_again(
    world: World, s3_uri: str, busy: list[str], fault: str
) -> None:
    source = Source("s3 csv.gz", world, s3_uri)
    source.put(LAST, whole())
    planned = world.plan()
    busy += ["", fault]
    assert held(world, planned).equals(ordered(whole()))
    assert busy == []
