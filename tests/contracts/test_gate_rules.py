from typing import Any

import pytest

from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.gate import Gate
from ratchet.contracts.loading import loads
from ratchet.contracts.losses import Loss
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.slices import Slice

FILE = """
name: small
source: {kind: files, uri: "/data/date={date}/*.parquet", window_days: 3}
columns:
  country: {role: categorical, type: string}
  price: {role: numeric, type: float64, min: 0}
  hour: {role: ignore, type: int64}
  item: {role: id, type: string}
  seen: {role: time, type: timestamp}
  new: {role: ignore, type: bool}
  clicked: {role: label, type: int64}
train: {objective: binary}
"""


def problems(tail: str) -> list[str]:
    with pytest.raises(PipelineInvalid) as raised:
        loads(FILE + tail)
    return [str(problem) for problem in raised.value.problems]


def sliced(entry: str) -> str:
    return problems(f"evaluate:\n  slices:\n    - {entry}\n")[0]


def test_slices_are_columns_bins_and_expressions_and_read_back_as_they_are_written() -> None:
    spec = loads(
        FILE + "evaluate: {slices: [country, item, hour, {column: price, bins: 4}, {column: hour, bins: [6, 12]}, "
        "{where: 'country == \"DE\" and hour < 6'}, {where: 'seen is missing'}]}\n"
    )
    assert spec.evaluate.slices[3:5] == (Slice(column="price", bins=4), Slice(column="hour", bins=(6.0, 12.0)))
    assert spec.slice_columns == ("country", "hour", "item", "price", "seen")
    assert [one.title for one in spec.evaluate.slices[2:]] == [
        "hour", "bins of price", "bins of hour", 'country == "DE" and hour < 6', "seen is missing"
    ]  # fmt: skip
    stored = spec.model_dump(mode="json", by_alias=True)
    assert stored["evaluate"]["slices"][:4] == ["country", "item", "hour", {"column": "price", "bins": 4}]
    assert PipelineSpec.model_validate_json(spec.model_dump_json(by_alias=True)) == spec


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("price", "price is a number, and its values are too many to be slices; to do: write {column: price, bins: 4}"),
        ("clicked", "clicked has role label, which makes no slice; allowed: country, hour, item, new"),
        ("contry", "there is no column contry; allowed: country, hour, item, new; did you mean country?"),
        ("seen", "seen has role time, which makes no slice"),
        ("{column: country, bins: 3}", "bins are of numbers, and country is string; allowed: price, hour"),
        ("{column: hour, bins: 1}", "1 bins; allowed: 2 to 20"),
        ("{column: hour, bins: [3, 2]}", "are no bins; allowed: a number of them, or their inner edges in order"),
        ("{column: hour, bins: many}", "'many' are no bins; allowed: a number of them, or their inner edges in order"),
        ("{column: hour, edges: [3]}", "is no slice; write country, {column: price, bins: 4}"),
        ("{column: hour, where: new}", "a slice is a column, {column: .., bins: ..} or {where: ..}"),
        ("{where: 3}", "3 is no expression"),
        ("{where: 'contry == 3'}", "there is no column contry"),
        ("{where: 'clicked == 1'}", "clicked has role label, which makes no slice"),
        ("{where: 'country > 3'}", "country is string, and 3 is not; allowed: column == value"),
        ("{where: 'country < \"DE\"'}", "country is string, which has no order; use ==, != or in"),
        ("{where: 'hour in [1, true]'}", "hour is int64, and true is not"),
        ("{where: 'new == \"yes\"'}", 'new is bool, and "yes" is not'),
        ("{where: 'seen > 3'}", "seen is a timestamp, which can only be asked for `is missing`"),
        ("{where: 'hour = 3'}", "'= 3' at character 6 is not understood"),
    ],
)
def test_a_slice_that_cannot_be_is_refused_with_its_line(entry: str, said: str) -> None:
    found = sliced(entry)
    assert found.startswith("pipeline.yaml:15: evaluate.slices.0")
    assert said in found


def test_slices_are_looked_at_beside_a_key_that_is_wrong() -> None:
    found = problems("evaluate: {metric: 3, slices: [contry, {where: 'contry'}]}\n")
    assert sum("there is no column contry" in line for line in found) == 2


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ("guards: {rmse: 1%}", "gate.guards.rmse: rmse does not measure a binary model"),
        ("guards: {auc: 1%}", "auc decides already, by gate.min_gain"),
        ("guards: {logloss: {abs: 3}}", "is no loss; write 1%, or {absolute: 0.005}"),
        ("guards: {logloss: {absolute: -3}}", "-3 is below 0"),
        ("floors: {rmse: 1}", "gate.floors.rmse: rmse does not measure a binary model"),
        ("floors: {nonsense: 1}", "'nonsense' is not a metric"),
        ("unproven_slices: fail", "'fail' is not allowed; allowed: block, warn"),
    ],
)
def test_a_guard_that_cannot_be_is_refused(gate: str, said: str) -> None:
    assert said in problems(f"gate: {{{gate}}}\n")[0]


def test_losses_are_shares_or_absolute() -> None:
    gate = loads(FILE + "gate: {guards: {logloss: 1%, pr_auc: {absolute: 0.01}}, floors: {auc: 0.7}}\n").gate
    assert gate.guards == {"logloss": Loss(relative=0.01), "pr_auc": Loss(absolute=0.01)}
    dumped: dict[str, Any] = gate.model_dump(mode="json")
    assert dumped["guards"] == {"logloss": "1%", "pr_auc": {"absolute": 0.01}}
    assert [Loss(relative=0.01).share(0.5), Loss(absolute=0.01).share(0.5), Loss(absolute=0.01).share(0.0)] == [
        0.01, 0.02, 0.01,
    ]  # fmt: skip
    assert Gate(guards={"pr_auc": Loss(absolute=0.01)}).guards == {"pr_auc": gate.guards["pr_auc"]}
    with pytest.raises(ValueError, match="a loss is a share"):
        Loss()


def test_a_slice_of_a_column_that_is_wrong_itself_is_not_reported_twice() -> None:
    with pytest.raises(PipelineInvalid) as raised:
        loads(FILE.replace("role: categorical, type: string", "role: 3") + "evaluate: {slices: [country]}\n")
    assert {problem.key for problem in raised.value.problems} == {"columns.country.role", "columns.country.type"}


@pytest.mark.parametrize(("cluster", "hint"), [("itm", "; did you mean item?"), ("nothing", "")])
def test_a_cluster_that_is_no_column_of_the_source_is_refused_with_its_line(cluster: str, hint: str) -> None:
    allowed = "country, price, hour, item, seen, new, clicked"
    said = f"evaluate.cluster: {cluster} is not a column of the source; allowed: {allowed}{hint}"
    assert any(line.endswith(said) for line in problems(f"evaluate: {{cluster: {cluster}}}\n"))
