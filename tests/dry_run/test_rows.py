"""Made-up rows fit the columns of a pipeline."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ratchet.contracts.loading import load
from tasks.dry_run.rows import ROWS, write_rows
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
    ],
)
def test_numbers_are_within_their_bounds(tmp_path: Path, column: dict[str, Any], low: float, high: float) -> None:
    values = made(tmp_path, {"number": {"role": "numeric", **column}})["number"]
    assert len(values) == ROWS
    assert low <= min(values) <= max(values) <= high
    assert len(set(values)) > 1 or low == high


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
