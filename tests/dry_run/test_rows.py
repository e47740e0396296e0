"""Made-up rows fit the columns of a pipeline."""

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ratchet.contracts.loading import load
from tasks.dry_run.rows import DAY, ROWS, write_rows
from tests.world import SPEC, World, clicks

ROOT = Path(__file__).resolve().parents[2]


def made(folder: Path, columns: dict[str, Any], objective: str = "binary") -> dict[str, list[Any]]:
    label = {"label": {"role": "label", "type": "int64"}, "x": {"role": "numeric", "type": "int64"}, **columns}
    world: World = clicks(
        folder, columns={"query": SPEC["columns"]["query_id"], **label}, train={"objective": objective}
    )
    write_rows(folder / "rows.parquet", world.spec)
    return pq.read_table(folder / "rows.parquet").to_pydict()  # type: ignore[no-any-return]  # pyarrow has no types


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        ({"type": "float64"}, 0, 100),
        ({"type": "float64", "min": 5}, 5, 105),
        ({"type": "float64", "max": -5}, -105, -5),
        ({"type": "float64", "min": 2, "max": 2}, 2, 2),
        ({"type": "int64", "min": -3, "max": 4}, -3, 4),
        ({"type": "int64", "min": 0.5, "max": 1.5}, 1, 1),
        ({"type": "int64", "min": 0, "max": 1e300}, 0, 100),
        ({"type": "int64", "min": -1e300, "max": 1e300}, -(2**63), 100 - 2**63),
        ({"type": "int64", "min": 2**63 - 2048}, 2**63 - 2048, 2**63 - 2048),
        ({"type": "float64", "min": -1.5e308, "max": 1.5e308}, -3.5e38, 3.5e38),
    ],
)
def test_numbers_are_within_their_bounds(tmp_path: Path, column: dict[str, Any], low: float, high: float) -> None:
    values = made(tmp_path, {"number": {"role": "numeric", **column}})["number"]
    assert len(values) == ROWS
    assert low <= min(values) <= max(values) <= high
    assert len(set(values)) > 1 or low == high


@pytest.mark.parametrize("bounds", [{"max": 1}, {"max": 0.2}, {"max": 1e300}, {"min": -5}, {"min": -5, "max": 0.5}])
def test_a_weight_is_never_negative(tmp_path: Path, bounds: dict[str, float]) -> None:
    values = made(tmp_path, {"trust": {"role": "weight", "type": "float64", **bounds}})["trust"]
    assert 0 <= min(values) < max(values) <= min(bounds.get("max", 101), 101)


def test_moments_and_dates_are_those_that_the_column_allows(tmp_path: Path) -> None:
    columns = {
        "at": {"role": "time", "type": "timestamp", "in": ["2026-01-01T10:30:00", "2026-01-02"]},
        "on": {"role": "ignore", "type": "date", "in": ["2026-01-01", "2026-01-02"]},
        "never": {"role": "ignore", "type": "date", "in": ["some day"]},
    }
    values = made(tmp_path, columns)
    assert set(values["at"]) == {datetime(2026, 1, 1, 10, 30), datetime(2026, 1, 2)}
    assert set(values["on"]) == {date(2026, 1, 1), date(2026, 1, 2)}
    assert set(values["never"]) == {DAY}


@pytest.mark.parametrize(
    ("kind", "allowed"), [("string", ["a", "b", "c"]), ("int64", [3, 5]), ("bool", [True]), ("int64", list(range(40)))]
)
def test_values_are_those_that_the_column_allows(tmp_path: Path, kind: str, allowed: list[Any]) -> None:
    values = made(tmp_path, {"number": {"role": "categorical", "type": kind, "in": allowed}})["number"]
    assert set(values) <= set(allowed)
    assert len(set(values)) == min(len(allowed), ROWS)


def test_a_value_is_missing_only_where_the_column_says_that_some_are(tmp_path: Path) -> None:
    columns = {
        "never": {"role": "numeric", "type": "float64", "max_null": "0%"},
        "unknown": {"role": "numeric", "type": "float64"},
        "some": {"role": "categorical", "type": "string", "max_null": "5%"},
    }
    values = made(tmp_path, columns)
    assert [values[name].count(None) for name in columns] == [0, 0, 1]


@pytest.mark.parametrize(("objective", "labels"), [("binary", {0, 1}), ("ranking", {0, 1, 2})])
def test_labels_fit_the_objective_and_groups_are_whole(tmp_path: Path, objective: str, labels: set[int]) -> None:
    values = made(
        tmp_path, {"at": {"role": "time", "type": "date"}, "trust": {"role": "weight", "type": "float64"}}, objective
    )
    assert set(values["label"]) == labels
    assert len(set(values["query"])) == 8
    assert min(values["trust"]) >= 1
    assert len(set(values["at"])) == 1


@pytest.mark.parametrize("name", ["search-ranking", "payments-fraud"])
def test_the_rows_of_the_examples_are_the_same_each_time(tmp_path: Path, name: str) -> None:
    spec = load(ROOT / "dags" / "pipelines" / name)
    for file in ("one", "two"):
        write_rows(tmp_path / file, spec)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
