"""Columns that the pipeline file makes: the same values for a day, for a row alone, and in any order."""

from datetime import datetime
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.errors import ConfigurationError, PipelineInvalid
from ratchet.contracts.fingerprint import flatten
from ratchet.contracts.loading import loads
from ratchet.contracts.made_columns import MadeColumn, made_columns
from ratchet.contracts.make import Make
from ratchet.contracts.readers import reader, recorded_columns
from ratchet.model.made_columns import MadeDerive

KINDS: dict[str, Any] = {"price": "float64", "nights": "int64", "country": "string", "new": "bool", "at": "timestamp"}
ROWS = pd.DataFrame(
    {
        "query": ["a", "a", "b", "b", "b", None],
        "price": [1.0, 3.0, 2.0, 2.0, None, 5.0],
        "nights": pd.array([2, 0, 1, None, 1, 1], "Int64"),
        "country": ["D|E", "x", None, "y\\", "a", "b"],
        "new": pd.array([True, False, None, True, True, False], "boolean"),
        "at": pd.to_datetime(["2026-03-29 00:30", "2026-03-29 01:30", "2026-01-01 00:00", "2026-12-31 00:00", None,
                              "2026-06-01 00:00"]),
        "listed": pd.to_datetime(["2026-03-28"] * 6),
    }
)  # fmt: skip


def made(make: dict[str, Any], rows: pd.DataFrame = ROWS) -> list[Any]:
    """The values of a column, None where one is missing."""
    parsed = Make.model_validate(make)
    inputs = {name: KINDS.get(name, "date") for name in parsed.inputs}
    one = MadeColumn(name="new_one", make=parsed, inputs=inputs, group="query" if parsed.in_group else None)
    values = MadeDerive((one,))(rows)["new_one"]
    return [None if missing else value for value, missing in zip(values.tolist(), values.isna(), strict=True)]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        ({"ratio": ["price", "nights"]}, [0.5, None, 2.0, None, None, 5.0]),
        ({"difference": ["price", "nights"]}, [-1.0, 3.0, 1.0, None, None, 4.0]),
        ({"cross": ["country", "nights"]}, ["D\\|E|2", "x|0", None, None, "a|1", "b|1"]),
        ({"cross": ["new", "country"]}, ["true|D\\|E", "false|x", None, "true|y\\\\", "true|a", "false|b"]),
        ({"clip": {"of": "price", "low": 2, "high": 4}}, [2.0, 3.0, 2.0, 2.0, None, 4.0]),
        ({"clip": {"of": "price", "high": 2.5}}, [1.0, 2.5, 2.0, 2.0, None, 2.5]),
        ({"bucketize": {"of": "price", "at": [2, 3]}}, [0, 2, 1, 1, None, 2]),
        ({"date_part": {"of": "at", "part": "hour", "timezone": "Europe/Berlin"}}, [1, 3, 1, 1, None, 2]),
        ({"date_part": {"of": "at", "part": "weekday"}}, [6, 6, 3, 3, None, 0]),
        ({"date_part": {"of": "at", "part": "week"}}, [13, 13, 1, 53, None, 23]),
        ({"days_since": {"of": "listed", "until": "at"}}, [1 + 0.5 / 24, 1.0625, -86.0, 278.0, None, 65.0]),
        ({"in_group": {"of": "price", "statistic": "mean"}}, [2.0, 2.0, 2.0, 2.0, None, 5.0]),
        ({"in_group": {"of": "price", "statistic": "min"}}, [1.0, 1.0, 2.0, 2.0, None, 5.0]),
        ({"in_group": {"of": "price", "statistic": "max"}}, [3.0, 3.0, 2.0, 2.0, None, 5.0]),
        ({"in_group": {"of": "price", "statistic": "count"}}, [2.0, 2.0, 2.0, 2.0, None, 1.0]),
        ({"in_group": {"of": "price", "statistic": "rank"}}, [2.0, 1.0, 1.0, 1.0, None, 1.0]),
        ({"in_group": {"of": "price", "statistic": "share"}}, [0.25, 0.75, 0.5, 0.5, None, 1.0]),
        ({"in_group": {"of": "price", "statistic": "difference"}}, [-1.0, 1.0, 0.0, 0.0, None, 0.0]),
    ],
)
def test_each_way_to_make_a_column(make: dict[str, Any], expected: list[Any]) -> None:
    assert made(make) == expected


def test_a_hash_is_stable_and_in_its_buckets() -> None:
    found = made({"hash": {"of": "country", "buckets": 10}})
    ids = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") for text in ("D|E", "x")]
    assert found[:3] == [ids[0] % 10, ids[1] % 10, None]
    assert made({"hash": {"of": "nights", "buckets": 3}})[0] in range(3)


def test_a_row_alone_and_in_another_form_has_the_same_values() -> None:
    for make in ({"cross": ["country", "nights"]}, {"bucketize": {"of": "price", "at": [2, 3]}},
                 {"date_part": {"of": "at", "part": "hour", "timezone": "Asia/Tokyo"}}, {"ratio": ["price", "nights"]}):  # fmt: skip
        whole = made(make)
        plain = ROWS.astype({"nights": "float64", "new": "object"})
        plain["at"] = [None if pd.isna(at) else at.isoformat() for at in ROWS["at"]]
        zoned = ROWS.assign(at=ROWS["at"].dt.tz_localize("UTC").dt.tz_convert("America/New_York"))
        for row in range(len(ROWS)):
            for frame in (ROWS, plain, zoned):
                assert made(make, frame.iloc[[row]]) == whole[row : row + 1], (make, row)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.floats(-1e6, 1e6) | st.none()), min_size=1, max_size=40),
    st.sampled_from(["mean", "min", "max", "count", "rank", "share", "difference"]),
    st.randoms(use_true_random=False),
)
def test_a_value_of_a_group_depends_on_no_other_group_and_on_no_order(
    pairs: list[tuple[int, float | None]], statistic: str, draw: Any
) -> None:
    rows = pd.DataFrame({"query": [query for query, _ in pairs], "price": [price for _, price in pairs]}, dtype=float)
    make = {"in_group": {"of": "price", "statistic": statistic}}
    whole = made(make, rows)
    order = draw.sample(range(len(rows)), len(rows))
    assert made(make, rows.iloc[order]) == [whole[place] for place in order]
    for query in rows["query"].unique():
        own = np.flatnonzero(rows["query"] == query)
        assert made(make, rows.iloc[own]) == [whole[place] for place in own]


def test_times_of_several_zones_in_a_batch_are_those_of_the_rows_alone() -> None:
    texts = ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T02:30:00Z", "2026-10-25T02:30:00"]
    rows = pd.DataFrame({"at": texts, "listed": ["2026-10-25T18:00:00"] * 4})
    for make in ({"date_part": {"of": "at", "part": "hour"}}, {"days_since": {"of": "listed", "until": "at"}}):
        whole = made(make, rows)
        assert [made(make, rows.iloc[[row]])[0] for row in range(4)] == whole
    assert made({"date_part": {"of": "at", "part": "hour"}}, rows) == [0, 1, 2, 2]
    assert made({"days_since": {"of": "listed", "until": "at"}}, rows)[2] == 2.5 / 24


def test_rows_without_a_column_that_is_needed_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no column nights, which new_one is made from"):
        made({"ratio": ["price", "nights"]}, ROWS.drop(columns="nights"))


FILE = """name: clicks
source: {{kind: files, uri: "/data/{{date}}.csv"}}
columns:
  query: {{type: int64, role: group}}
  at: {{type: timestamp, role: time}}
  born: {{type: date, role: ignore}}
  price: {{type: float64, role: numeric}}
  nights: {{type: int64, role: ignore}}
  country: {{type: string, role: categorical}}
  clicked: {{type: bool, role: label}}
  made: {made}
train: {{objective: {objective}}}
"""


@pytest.mark.parametrize(
    ("given_", "objective", "message"),
    [
        ("{type: float64, role: numeric, make: {}}", "binary", "a column is made in one way; allowed: ratio"),
        ("{type: float64, role: numeric, make: {clip: {of: price}}}", "binary", "neither low nor high"),
        ("{type: float64, role: numeric, make: {clip: {of: price, low: 2, high: 1}}}", "binary", "low 2 is above"),
        ("{type: float64, role: numeric, make: {clip: {of: price, low: 5, high: 0}}}", "binary", "low 5 is above"),
        ("{type: int64, role: numeric, make: {ratio: [price, nights]}}", "binary", "ratio makes float64"),
        ("{type: float64, role: numeric, make: {ratio: [prise, nights]}}", "binary", "did you mean price?"),
        ("{type: float64, role: numeric, make: {ratio: [price, made]}}", "binary", "made is derived"),
        ("{type: float64, role: numeric, make: {ratio: [price, clicked]}}", "binary", "clicked is the label"),
        ("{type: float64, role: numeric, make: {ratio: [price, country]}}", "binary", "country is string"),
        ("{type: int64, role: categorical, make: {bucketize: {of: price, at: [2, 1]}}}", "binary", "do not ascend"),
        ("{type: int64, role: categorical, make: {date_part: {of: born, part: hour}}}", "binary", "has no hour"),
        ("{type: float64, role: numeric, make: {in_group: {of: price, statistic: rank}}}", "binary", "of rankings"),
        ("{type: float64, role: ignore, make: {ratio: [price, nights]}}", "binary", "a derived column is a feature"),
    ],
)
def test_what_cannot_be_made_is_refused(given_: str, objective: str, message: str) -> None:
    with pytest.raises(PipelineInvalid, match=r"pipeline\.yaml:11: .*") as caught:
        loads(FILE.format(made=given_, objective=objective))
    assert message in str(caught.value)


def test_a_made_column_is_derived_and_what_it_reads_is_needed() -> None:
    given_ = "{type: float64, role: numeric, make: {in_group: {of: nights, statistic: rank}}}"
    spec = loads(FILE.format(made=given_, objective="ranking"))
    assert "made" not in spec.source_columns
    assert loads(FILE.format(made=given_, objective="ranking")) == type(spec).model_validate_json(
        spec.model_dump_json(by_alias=True)
    )
    (one,) = made_columns(spec.columns)
    assert (one.name, one.group, dict(one.inputs)) == ("made", "query", {"nights": "int64"})
    assert MadeColumn.model_validate(one.model_dump(mode="json", exclude_none=True)) == one
    recorded = recorded_columns(flatten(dict(spec.columns), "config.columns"))
    assert recorded is not None
    assert recorded["made"] == spec.columns["made"]
    assert {"nights", "query"} <= {*reader(recorded).needed}
    assert "born" not in reader(recorded).needed
    below = "{type: float64, role: numeric, make: {clip: {of: price, high: -5}}}"
    assert loads(FILE.format(made=below, objective="binary")).columns["made"].make is not None
    hour = "{type: int64, role: categorical, make: {date_part: {of: at, part: hour}}}"
    assert loads(FILE.format(made=hour, objective="binary")).columns["made"].derived


def test_times_of_another_kind_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"column at: holds .* where times are declared"):
        made({"date_part": {"of": "at", "part": "day"}}, ROWS.assign(at="soon"))
    assert made({"date_part": {"of": "at", "part": "day"}}, ROWS.assign(at=datetime(2026, 3, 4)))[0] == 4
