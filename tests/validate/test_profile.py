from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.contracts.pipeline import PipelineSpec
from tasks.validate import grid, profile
from tasks.validate.measuring import measure
from tasks.validate.profile import KEPT_VALUES, ColumnProfile, Profile, column_total, total

SPEC = PipelineSpec.model_validate(
    {
        "name": "x",
        "source": {"kind": "files", "uri": "/x/{date}"},
        "columns": {
            "price": {"role": "numeric", "type": "float64"},
            "count": {"role": "numeric", "type": "int64"},
            "country": {"role": "categorical", "type": "string"},
            "paid": {"role": "categorical", "type": "bool"},
            "at": {"role": "time", "type": "timestamp"},
            "note": {"role": "ignore", "type": "string"},
            "clicked": {"role": "label", "type": "int64", "in": [0, 1]},
        },
        "train": {"objective": "binary"},
    }
)
SCHEMA = {
    "price": pl.Float64,
    "count": pl.Int64,
    "country": pl.String,
    "paid": pl.Boolean,
    "at": pl.Datetime("us"),
    "note": pl.String,
    "clicked": pl.Int64,
}
ROW = st.fixed_dictionaries(
    {
        "price": st.none() | st.floats(),
        "count": st.none() | st.integers(-(2**53), 2**53),
        "country": st.none() | st.sampled_from(["DE", "FR", "US", "", "é", "<b>"]),
        "paid": st.none() | st.booleans(),
        "at": st.none() | st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)),
        "note": st.none() | st.text(max_size=3),
        "clicked": st.none() | st.sampled_from([0, 1]),
    }
)
ROWS = st.lists(ROW, max_size=30)


def measured(folder: Path, rows: list[dict[str, Any]]) -> Profile:
    path = folder / "day.parquet"
    pl.DataFrame(rows, SCHEMA, orient="row").write_parquet(path)
    return measure(path, SPEC)


@settings(deadline=None, max_examples=40)
@given(days=st.lists(ROWS, min_size=1, max_size=4))
def test_the_sum_of_the_days_is_the_profile_of_all_rows(
    tmp_path_factory: Any, days: list[list[dict[str, Any]]]
) -> None:
    folder = tmp_path_factory.mktemp("days")
    together = measured(folder, [row for day in days for row in day])
    profiles = [measured(folder, day) for day in days]
    # Repeats are within a day, and what a column predicts is of one day alone.
    alone = {name: one.model_copy(update={"predictive": None}) for name, one in together.columns.items()}
    repeats = sum(day.duplicates for day in profiles)
    together = together.model_copy(update={"duplicates": repeats, "columns": alone})
    assert total(profiles) == together
    assert total(reversed(profiles)) == together


@settings(deadline=None, max_examples=40)
@given(rows=ROWS)
def test_a_profile_counts_what_polars_counts(tmp_path_factory: Any, rows: list[dict[str, Any]]) -> None:
    found = measured(tmp_path_factory.mktemp("day"), rows)
    frame = pl.DataFrame(rows, SCHEMA, orient="row")
    price = frame["price"].fill_nan(None)
    finite = price.filter(price.is_finite())
    assert found.rows == frame.height
    assert found.labelled == frame.height - frame["clicked"].null_count()
    assert found.columns["price"].missing == price.null_count()
    assert (found.columns["price"].low, found.columns["price"].high) == (finite.min(), finite.max())
    assert sum(found.columns["price"].histogram.values()) == len(finite)
    assert found.columns["country"].distinct == frame["country"].drop_nulls().n_unique()
    assert sum(found.columns["country"].values.values()) == found.columns["country"].present
    assert set(found.columns["paid"].values) <= {"true", "false"}
    assert Profile.model_validate_json(found.model_dump_json()) == found


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_every_number_lies_within_its_bin_and_bins_are_in_order(values: list[float]) -> None:
    for value in values:
        (number,) = grid.count(np.array([value]))
        low, high = grid.edges(number)
        assert low <= value <= high or number == 0
    numbers = list(grid.count(np.array(values)))
    assert numbers == sorted(numbers)
    for one, two in pairwise(numbers):
        assert grid.edges(one)[1] <= grid.edges(two)[0]


@given(st.floats(1e-300, 1e300))
def test_a_bin_is_at_most_a_thirtysecond_of_its_values_wide(value: float) -> None:
    (number,) = grid.count(np.array([value]))
    low, high = grid.edges(number)
    assert high - low <= low / 32 * 1.0001


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 40).map(str), st.integers(1, 50), max_size=40), min_size=1, max_size=5))
def test_values_that_are_not_kept_are_still_counted(monkeypatch_days: list[dict[str, int]]) -> None:
    kept = profile.KEPT_VALUES
    profile.KEPT_VALUES = 8
    try:
        days = [
            ColumnProfile(rows=sum(day.values()), values=first, others=rest)
            for day in monkeypatch_days
            for first, rest in [profile.most_frequent(day)]
        ]
        summed = column_total(days)
    finally:
        profile.KEPT_VALUES = kept
    assert sum(summed.values.values()) + summed.others == sum(sum(day.values()) for day in monkeypatch_days)
    assert len(summed.values) <= 8
    for value, rows in summed.values.items():
        assert rows <= sum(day.get(value, 0) for day in monkeypatch_days)


@pytest.mark.parametrize("name", ["rows", "value", "count", "literal", "index"])
def test_a_column_may_have_any_name(tmp_path: Path, name: str) -> None:
    column = {"role": "categorical", "type": "string", "in": ["a", "b"]}
    label = {"role": "label", "type": "int64"}
    spec = PipelineSpec.model_validate({**SPEC.model_dump(by_alias=True), "columns": {name: column, "clicked": label}})
    path = tmp_path / "day.parquet"
    pl.DataFrame({name: ["a", "b", "c"], "clicked": [0, 1, 1]}).write_parquet(path)
    found = measure(path, spec).columns[name]
    assert (found.values, found.forbidden) == ({"a": 1, "b": 1, "c": 1}, {"c": 1})


def test_many_distinct_values_are_counted_within_a_tenth_or_so(tmp_path: Path) -> None:
    path = tmp_path / "day.parquet"
    count = 50_000
    frame = pl.DataFrame({"country": [f"c{i}" for i in range(count)] + ["c7"] * 100})
    frame.with_columns(
        *(pl.lit(None, kind).alias(name) for name, kind in SCHEMA.items() if name != "country")
    ).write_parquet(path)
    found = measure(path, SPEC).columns["country"]
    assert abs(found.distinct - count) < count * 0.25
    assert len(found.values) == KEPT_VALUES
    assert next(iter(found.values.items())) == ("c7", 101)
    assert sum(found.values.values()) + found.others == count + 100
