"""Columns that the source calls otherwise, and texts in the place of whole numbers, in every kind of source."""

import sqlite3
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import DataRejected
from tests.world import LAST, World, clicks, rows

NAMES = {"price": "Preis (EUR)", "country": "shop.country", "shown_at": "Zeit"}
TEXTS = ("no", "yes")


def renamed() -> pa.Table:
    """The data date as its source has it."""
    table = pa.table(rows(60, LAST))
    texts = pa.array([TEXTS[value] for value in table["clicked"].to_pylist()])
    table = table.set_column(table.schema.get_field_index("clicked"), "clicked", texts)
    return table.rename_columns([NAMES.get(name, name) for name in table.column_names])


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = clicks(tmp_path, source={"names": NAMES, "codes": {"clicked": TEXTS}, "missing_days": "skip"})
    (made.source / f"date={LAST}").mkdir()
    return made


def put(world: World, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, frame = world.source / f"date={LAST}" / f"x.{kind}", pl.from_arrow(renamed())
    assert isinstance(frame, pl.DataFrame)
    match kind:
        case "parquet":
            pq.write_table(renamed(), path)
        case "csv":
            frame.write_csv(path)
        case "jsonl":
            frame.with_columns(pl.col("Zeit").dt.to_string("%Y-%m-%dT%H:%M:%S%.f")).write_ndjson(path)
        case "delta":
            frame.with_columns(date=pl.lit(LAST)).write_delta(str(world.folder / "table"))
            world.document["source"] |= {"kind": "delta", "uri": str(world.folder / "table")}
        case "sqlite":
            connection = sqlite3.connect(world.folder / "x.db")
            frame.to_pandas().assign(day=str(LAST)).to_sql("t", connection, index=False)
            connection.close()
            monkeypatch.setenv("RATCHET_SOURCE_CLICKS", f"sqlite:///{world.folder}/x.db")
            query = "select * from t where day = :date"
            world.document["source"] |= {"kind": "sql", "uri": "${RATCHET_SOURCE_CLICKS}", "query": query}


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "delta", "sqlite"])
def test_every_kind_of_source_may_call_its_columns_otherwise(
    world: World, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, kind, monkeypatch)
    day = summaries.snapshot(world.run("ingest").result).days[-1]
    found = pq.read_table(world.store.local(day.file.key))
    expected = pa.table(rows(60, LAST))
    order = [(name, "ascending") for name in expected.column_names]
    assert found.sort_by(order).equals(expected.sort_by(order))


def test_a_text_without_a_code_stops_the_run(world: World) -> None:
    table = renamed()
    table = table.set_column(table.schema.get_field_index("clicked"), "clicked", pa.array(["yes", None, "Yes"] * 20))
    pq.write_table(table, world.source / f"date={LAST}" / "x.parquet")
    with pytest.raises(DataRejected, match=r"column clicked: 'Yes' is none of source\.codes\.clicked: 'no', 'yes'"):
        world.run("ingest")


def test_other_names_and_codes_read_the_days_again(world: World) -> None:
    table = renamed()
    table = table.append_column("Preis", table["Preis (EUR)"])
    pq.write_table(table, world.source / f"date={LAST}" / "x.parquet")
    first = world.run("ingest").result.content
    world.document["source"]["codes"] = {"clicked": TEXTS[::-1]}
    world.document["source"]["names"] = {**NAMES, "price": "Preis"}
    second = world.run("ingest")
    assert second.result.content != first
    day = summaries.snapshot(second.result).days[-1]
    assert pq.read_table(world.store.local(day.file.key))["clicked"].to_pylist() == [1 - i for i in rows(60)["clicked"]]
