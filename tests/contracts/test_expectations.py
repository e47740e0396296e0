"""The expectations that `ratchet check` knows are those of the library."""

import os
import warnings

import pytest

from ratchet.contracts.errors import PipelineInvalid
from ratchet.contracts.expectations import CATALOGUE, columns_exist, types_exist
from ratchet.contracts.loading import loads
from tasks.validate.expectations import known_expectations, own_arguments

SPEC = """
name: small
source: {{kind: files, uri: "/data/date={{date}}/*.parquet"}}
columns:
  x: {{role: numeric, type: float64}}
  made: {{role: numeric, type: float64, derived: true}}
  y: {{role: label, type: int64}}
train: {{objective: binary}}
validate:
  expectations:
    - {{{expectation}}}
"""
KEY = "p.yaml:11: validate.expectations.0"


def said(expectation: str) -> list[str]:
    try:
        loads(SPEC.format(expectation=expectation), "p.yaml", rules=(types_exist, columns_exist))
    except PipelineInvalid as error:
        return str(error).splitlines()
    return []


@pytest.mark.parametrize(
    "expectation",
    [
        "type: expect_column_median_to_be_between, column: x, min_value: 1, severity: warning",
        "type: expect_table_row_count_to_be_between, min_value: 1",
        "type: expect_compound_columns_to_be_unique, column_list: [x, date]",
    ],
)
def test_arguments_of_the_library_are_valid(expectation: str) -> None:
    assert said(expectation) == []


@pytest.mark.parametrize(
    ("expectation", "lines"),
    [
        (
            "type: expect_column_medain_to_be_between, column: x",
            [f"{KEY}.type: 'expect_column_medain_to_be_between' is not an expectation of great-expectations; did you mean "
             "expect_column_median_to_be_between?"],
        ),
        ("type: expect_xyz", [f"{KEY}.type: 'expect_xyz' is not an expectation of great-expectations"]),
        (
            "type: expect_column_values_to_be_unique, column: xx, mstly: 1",
            [f"{KEY}.mstly: expect_column_values_to_be_unique takes no such argument; allowed: column, mostly; did you mean "
             "mostly?",
             f"{KEY}.column: the snapshot has no column 'xx'; allowed: x, y, date; did you mean x?"],
        ),
        ("type: expect_column_values_to_be_unique", [f"{KEY}.column: is missing"]),
        (
            "type: expect_column_values_to_be_unique, column: made",
            [f"{KEY}.column: the snapshot has no column 'made'; allowed: x, y, date"],
        ),
        (
            "type: expect_compound_columns_to_be_unique, column_list: [x, z]",
            [f"{KEY}.column_list.1: the snapshot has no column 'z'; allowed: x, y, date"],
        ),
    ],
)  # fmt: skip
def test_an_unknown_argument_is_reported_at_its_line(expectation: str, lines: list[str]) -> None:
    assert said(expectation) == lines


def test_expectations_are_reported_together_with_other_problems() -> None:
    text = SPEC.format(expectation="type: expect_xyz, column: z").replace("binary", "binry")
    text += "    - {type: drop}\n    - 3\n"
    with pytest.raises(PipelineInvalid) as raised:
        loads(text, "p.yaml", rules=(types_exist, columns_exist))
    assert [problem.key for problem in raised.value.problems] == [
        "train.objective", "validate.expectations.0.type", "validate.expectations.0.column",
        "validate.expectations.1.type", "validate.expectations.2",
    ]  # fmt: skip


@pytest.mark.heavy
def test_the_catalogue_is_the_library_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken = {name: own_arguments(kind) for name, kind in known_expectations().items()}
        needed = {
            name: {argument for argument in taken[name] if kind.__fields__[argument].required}
            for name, kind in known_expectations().items()
        }
    assert {name: arguments.replace("!", "").split() for name, arguments in CATALOGUE.items()} == taken
    assert {name: {a[:-1] for a in listed.split() if a.endswith("!")} for name, listed in CATALOGUE.items()} == needed
