from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.columns import Column
from ratchet.contracts.errors import ConfigurationError, DataRejected
from ratchet.model.encoding import category_ids, encode
from ratchet.model.rows import read_rows


def test_numbers_keep_their_value_and_what_is_no_number_is_missing() -> None:
    df = pd.DataFrame(
        {"a": [1.5, None, np.inf, 1e300], "b": [True, False, True, False], "c": pd.array([1, None, 3, 4], "Int64")}
    )
    numbers, ids = encode(df, numeric=("a", "b", "c"), categorical={})
    assert numbers.dtype == np.float64
    np.testing.assert_array_equal(numbers[:, 0], np.float64([1.5, np.nan, np.nan, np.nan]))
    np.testing.assert_array_equal(numbers[:, 1], np.float32([1, 0, 1, 0]))
    np.testing.assert_array_equal(numbers[:, 2], np.float32([1, np.nan, 3, 4]))
    assert ids.shape == (4, 0)


@pytest.mark.parametrize(
    ("kind", "frames"),
    [
        ("string", [["x", None, "y"], pd.array(["x", None, "y"], "string"), pd.Categorical(["x", None, "y"])]),
        ("int64", [[1.0, None, 3.0], pd.array([1, None, 3], "Int64"), np.array([1, None, 3], object)]),
        ("bool", [np.array([True, None, False], object), pd.array([True, None, False], "boolean")]),
    ],
)
def test_a_value_has_one_id_however_pandas_holds_it(kind: str, frames: list[object]) -> None:
    ids = [category_ids(pd.Series(frame), kind).tolist() for frame in frames]
    assert all(each == ids[0] for each in ids)
    assert ids[0][1] == 0
    assert 0 not in (ids[0][0], ids[0][2])


def test_whole_columns_have_the_ids_of_columns_with_gaps() -> None:
    assert (
        category_ids(pd.Series([7, 8]), "int64").tolist()
        == category_ids(pd.Series([7.0, 8.0, None]), "int64").tolist()[:2]
    )
    assert category_ids(pd.Series([True]), "bool")[0] == category_ids(pd.Series([True, None]), "bool")[0]


@given(st.lists(st.none() | st.text(max_size=3)))
def test_ids_follow_the_value_and_nothing_else(values: list[str | None]) -> None:
    series = pd.Series(values, dtype="str")
    ids = category_ids(series, "string")
    for value, found in zip(series, ids, strict=True):
        assert found == (0 if pd.isna(value) else category_ids(pd.Series([value], dtype="str"), "string")[0])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "string"),
        (["1"], "int64"),
        ([1.5], "int64"),
        ([2, 3], "bool"),
        ([1, True], "string"),
        ([True], "int64"),
    ],
)
def test_other_values_than_declared_are_refused_by_column(values: list[object], kind: str) -> None:
    with pytest.raises(DataRejected, match=r"column c: holds .* declared"):
        category_ids(pd.Series(values, name="c"), kind)


def test_large_numbers_that_lie_close_together_stay_apart() -> None:
    seconds = pd.Series([1_700_000_000, 1_700_000_060])
    numbers, _ = encode(pd.DataFrame({"t": seconds, "part": [0.1, 0.2]}), numeric=("t", "part"), categorical={})
    assert numbers.tolist() == [[1_700_000_000, 0.1], [1_700_000_060, 0.2]]


def test_rows_without_a_column_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="without the columns b, c"):
        encode(pd.DataFrame({"a": [1.0]}), numeric=("a", "b"), categorical={"c": "string"})
    for texts in (["x"], ["1"], [1.0, "2"]):
        with pytest.raises(DataRejected, match="column a: holds"):
            encode(pd.DataFrame({"a": texts}), numeric=("a",), categorical={})


def test_a_frame_of_the_snapshot_has_exact_large_integers_beside_missing_ones(tmp_path: Path) -> None:
    large = 2**62 + 1
    folder = tmp_path / "date=2026-11-20"
    folder.mkdir()
    table = pa.table({"id": pa.array([large, None]), "n": pa.array([1, None]), "s": ["a", None], "b": [True, None]})
    pq.write_table(table, folder / "day.parquet")
    columns = {
        "id": Column(role="categorical", type="int64"),
        "n": Column(role="numeric", type="int64"),
        "s": Column(role="categorical", type="string"),
        "b": Column(role="numeric", type="bool"),
        "made": Column(role="numeric", type="float64", derived=True),
    }
    df = read_rows(folder / "day.parquet", columns)
    assert list(df.columns) == ["id", "n", "s", "b"]
    numbers, ids = encode(df, numeric=("n", "b"), categorical={"id": "int64", "s": "string"})
    assert ids[0, 0] == category_ids(pd.Series([large]), "int64")[0]
    assert ids[1].tolist() == [0, 0]
    np.testing.assert_array_equal(numbers, np.float32([[1, 1], [np.nan, np.nan]]))
