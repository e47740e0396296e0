"""A dozen of the catalogue's corruptions on a sample: validate names each by rule and column."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.corruption_catalogue import CATALOGUE
from benchmarks.corruption_sets import samples
from benchmarks.corruptions import Outcome, outcomes

CHOSEN = (
    "delete: most rows of a category",
    "delete: two thirds of the labels",
    "duplicate: one row in ten",
    "duplicate: yesterday's rows under today's time",
    "truncate: the file",
    "shift: the time by a day",
    "rename: the values of a category",
    "scale: a third of a number by a hundred",
    "swap: 0 and 1 of the label",
    "zero: most labels",
    "leak: a number is the label with noise",
    "zone: the time came in New York",
    "encoding: nothing is the word nan",
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    _, payments = samples()
    chosen = [one for one in CATALOGUE if one.name in CHOSEN]
    return list(outcomes(tmp_path_factory.mktemp("corruptions"), replace(payments, window=5), chosen))


def test_each_corruption_is_named_by_rule_and_column(found: list[Outcome]) -> None:
    assert len(found) == len(CHOSEN)
    assert [one.line for one in found if not one.named] == []


def test_the_catalogue_has_at_least_forty_of_eleven_kinds_and_none_twice() -> None:
    names = [one.name for one in CATALOGUE]
    assert len(set(names)) == len(names) >= 40
    assert len(Counter(name.partition(":")[0] for name in names)) == 11


def test_a_corruption_that_no_rule_sees_is_not_counted_as_named(tmp_path: Path) -> None:
    _, payments = samples()
    (shifted,) = [one for one in CATALOGUE if one.name == "shift: the labels by one row"]
    (outcome,) = outcomes(tmp_path, replace(payments, window=5), [shifted])
    assert not outcome.named
    assert outcome.line == "payments: shift: the labels by one row: nothing"
