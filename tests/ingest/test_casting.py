import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.columns import ColumnType
from tasks.ingest.casting import LossyCast, cast
from tasks.ingest.schema import ARROW

BERLIN_SUMMER = timezone(timedelta(hours=2))
NUMBERS = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
]


@pytest.mark.parametrize(
    ("values", "declared", "expected"),
    [
        (pa.array([1, None], pa.int32()), "int64", [1, None]),
        (pa.array([1.0, None]), "int64", [1, None]),
        (pa.array([True, False]), "int64", [1, 0]),
        (pa.array([Decimal("3.00")]), "int64", [3]),
        (pa.array([1.5], pa.float32()), "float64", [1.5]),
        (pa.array([0.5], pa.float16()), "float64", [0.5]),
        (pa.array([7], pa.uint8()), "float64", [7.0]),
        (pa.array([Decimal("1.10")]), "float64", [1.1]),
        (pa.array(["a", None], pa.large_string()), "string", ["a", None]),
        (pa.array(["a"], pa.string_view()), "string", ["a"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "string", ["a", "b", "a"]),
        (pa.nulls(2), "string", [None, None]),
        (pa.array([0, 1, None]), "bool", [False, True, None]),
        (pa.array([5], pa.timestamp("s")), "timestamp", [datetime(1970, 1, 1, 0, 0, 5)]),
        (pa.array([5000], pa.timestamp("ns")), "timestamp", [datetime(1970, 1, 1, 0, 0, 0, 5)]),
        (
            pa.array([datetime(2026, 7, 1, 12, tzinfo=BERLIN_SUMMER)], pa.timestamp("ms", "Europe/Berlin")),
            "timestamp",
            [datetime(2026, 7, 1, 10)],
        ),
        (pa.array([date(2026, 7, 1)]), "timestamp", [datetime(2026, 7, 1)]),
        (pa.array([date(2026, 7, 1)], pa.date64()), "timestamp", [datetime(2026, 7, 1)]),
        (pa.array([date(2026, 7, 1)], pa.date64()), "date", [date(2026, 7, 1)]),
        (pa.array([datetime(2026, 7, 1)], pa.timestamp("ns")), "date", [date(2026, 7, 1)]),
    ],
)
def test_a_lossless_cast_is_done(values: Any, declared: ColumnType, expected: list[Any]) -> None:
    result = cast(values, declared)
    assert result.type == ARROW[declared]
    assert result.to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "declared"),
    [
        (pa.array([1.5]), "int64"),
        (pa.array([float("nan")]), "int64"),
        (pa.array([2**64 - 1], pa.uint64()), "int64"),
        (pa.array([2**53 + 1]), "float64"),
        (pa.array([Decimal("1.1000000000000000000001")]), "float64"),
        (pa.array([Decimal("1.5")]), "int64"),
        (pa.array([2]), "bool"),
        (pa.array(["1"]), "int64"),
        (pa.array(["1.5"]), "float64"),
        (pa.array([1]), "string"),
        (pa.array([b"a"]), "string"),
        (pa.array(["true"]), "bool"),
        (pa.array([1]), "timestamp"),
        (pa.array(["2026-07-01"]), "timestamp"),
        (pa.array([1001], pa.timestamp("ns")), "timestamp"),
        (pa.array([2**60], pa.timestamp("s")), "timestamp"),
        (pa.array([datetime(2026, 7, 1, 5)]), "date"),
        (pa.array([[1]]), "int64"),
        (pa.array([timedelta(1)]), "timestamp"),
    ],
)
def test_a_lossy_cast_is_refused(values: Any, declared: ColumnType) -> None:
    with pytest.raises(LossyCast):
        cast(values, declared)


def test_databases_without_times_may_hold_them_as_text() -> None:
    assert cast(pa.array(["2026-07-01 05:06:07"]), "timestamp", text=True).to_pylist() == [
        datetime(2026, 7, 1, 5, 6, 7)
    ]
    assert cast(pa.array(["2026-07-01"]), "date", text=True).to_pylist() == [date(2026, 7, 1)]
    with pytest.raises(LossyCast):
        cast(pa.array(["soon"]), "date", text=True)


@given(st.data())
def test_a_number_comes_out_as_the_same_number_or_not_at_all(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(NUMBERS))
    declared: ColumnType = data.draw(st.sampled_from(["int64", "float64", "bool"]))
    values = data.draw(st.lists(_values(kind), max_size=5))
    given_ = pa.array(values, kind)
    try:
        result = cast(given_, declared)
    except LossyCast:
        return
    pairs = zip(given_.to_pylist(), result.to_pylist(), strict=True)
    assert all(old == new or (math.isnan(old) and math.isnan(new)) for old, new in pairs)


@given(
    st.lists(st.none() | st.integers(-(2**62), 2**62)),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.sampled_from([None, "UTC", "Europe/Berlin"]),
)
def test_a_moment_comes_out_as_the_same_moment_or_not_at_all(
    ticks: list[int | None], unit: str, zone: str | None
) -> None:
    given_ = pa.array(ticks, pa.timestamp(unit, zone))
    try:
        result = cast(given_, "timestamp")
    except LossyCast:
        return
    scale = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    after = pc.cast(result, pa.int64()).to_pylist()
    assert [None if tick is None else tick * scale for tick in ticks] == [
        None if tick is None else tick * 1000 for tick in after
    ]


def _values(kind: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_boolean(kind):
        return st.none() | st.booleans()
    if pa.types.is_floating(kind):
        return st.none() | st.floats(width=kind.bit_width)
    signed = pa.types.is_signed_integer(kind)
    bits = kind.bit_width - signed
    return st.none() | st.integers(-(2**bits) if signed else 0, 2**bits - 1)
