"""A pipeline up to features, on rows with every kind of value that an encoder reads."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

from ratchet.contracts import summaries
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.summaries import Validation
from ratchet.runtime.context import Finished
from tests.world import LAST, World, clicks

D1, D2, D3 = LAST - timedelta(days=2), LAST - timedelta(days=1), LAST
COLUMNS = {
    "query_id": {"role": "group", "type": "string"},
    "country": {"role": "categorical", "type": "string"},
    "item": {"role": "categorical", "type": "int64"},
    "price": {"role": "numeric", "type": "float64", "min": 0, "transform": "log1p"},
    "cheap": {"role": "numeric", "type": "bool", "derived": True},
    "trust": {"role": "weight", "type": "float64"},
    "clicked": {"role": "label", "type": "int64"},
}
FEATURES = """
def derive(df):
    df["cheap"] = df["price"] < 3
    assert "clicked" not in df and "trust" not in df
    return df
"""


def day_rows(count: int = 12) -> dict[str, list[Any]]:
    return {
        "query_id": [f"q{i % 3}" for i in range(count)],
        "country": [("DE", "FR", None)[i % 3] for i in range(count)],
        "item": [None if i == 4 else i % 2 for i in range(count)],
        "price": [None if i == 5 else float(i) for i in range(count)],
        "trust": [1.0 + i for i in range(count)],
        "clicked": [None if i == 1 else int(i % 2 == 0) for i in range(count)],
    }


def at(folder: Path) -> World:
    """A pipeline with those columns and a features.py."""
    made = clicks(folder, columns=COLUMNS)
    (made.pipeline / "features.py").write_text(FEATURES, encoding="utf-8")
    return made


def validated(world: World, snapshot: PublishedResult, excluded: tuple[date, ...] = ()) -> PublishedResult:
    """A validation in which these days failed."""
    days = summaries.snapshot(snapshot.result).days
    summary = Validation(checks=(), excluded=excluded, rows={day.day: day.file.rows or 0 for day in days}, labelled={})
    parts = {"of": snapshot.result.content, "excluded": str(excluded)}
    with world.open(world.request("validate", parts=parts, attempt="a")) as ctx:
        return world.commit(ctx, Finished(content=digest_of(summary), summary=summary))


def encoded(world: World, data_date: date = LAST, excluded: tuple[date, ...] = ()) -> PublishedResult:
    snapshot = world.run("ingest", data_date)
    return world.run("features", data_date, {"ingest": snapshot, "validate": validated(world, snapshot, excluded)})
