"""The label rate of classes and of numbers: a shift is named, and what days differ by among themselves passes."""

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Check
from tasks.validate import grid
from tasks.validate.label_rate import check_label_rate, rates
from tasks.validate.profile import ColumnProfile, Profile, total

FIRST = date(2026, 3, 2)


def spec(objective: str, label: dict[str, Any]) -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            "name": "rates",
            "source": {"kind": "files", "uri": "/x/{date}"},
            "columns": {"x": {"role": "numeric", "type": "float64"}, "y": {"role": "label", **label}},
            "train": {"objective": objective},
        }
    )


NUMBERS = spec("regression", {"type": "float64"})
CLASSES = spec("multiclass", {"type": "int64", "in": [0, 1, 2]})


def judged(days: list[ColumnProfile], of: PipelineSpec) -> list[Check]:
    """The checks of the last day."""
    profiles = {
        FIRST + timedelta(days=place): Profile(rows=one.rows, labelled=one.present, columns={"y": one})
        for place, one in enumerate(days)
    }
    return list(check_label_rate(max(profiles), {day: rates(one, of) for day, one in profiles.items()}, of, "fail"))


def numbers(mean: float) -> ColumnProfile:
    values = np.random.default_rng(int(mean * 1000)).normal(mean, 10, 2_000)
    return ColumnProfile(rows=2_000, histogram=grid.count(values), type="float64")


def classes(*rows: int) -> ColumnProfile:
    return ColumnProfile(rows=sum(rows), values={str(place): one for place, one in enumerate(rows)}, type="int64")


@pytest.mark.parametrize(("mean", "passed"), [(51.5, True), (57.0, False), (43.0, False)])
def test_the_mean_of_a_regression(mean: float, *, passed: bool) -> None:
    (check,) = judged([numbers(one) for one in (50, 51, 49.5, 50.5, 49, mean)], NUMBERS)
    assert check.passed == passed
    assert "5 other days had 4" in check.allowed


def test_the_class_whose_share_shifted_is_named() -> None:
    usual = [classes(700, 200, 100), classes(690, 205, 105), classes(705, 195, 100)] * 2
    assert all(check.passed for check in judged([*usual, classes(680, 215, 105)], CLASSES))
    wrong = [check for check in judged([*usual, classes(700, 290, 10)], CLASSES) if not check.passed]
    assert [check.observed for check in wrong if "class 2" in check.observed] == ["class 2: 1 % of 1,000 labelled rows"]


def test_a_first_day_is_not_compared_by_name() -> None:
    (check,) = judged([classes(7, 2, 1)], CLASSES)
    assert (check.passed, check.severity, check.observed) == (False, "warning", "not compared: no other day has labels")


def test_a_profile_of_before_is_read_and_added() -> None:
    """As version 1 stored it."""
    before = Profile.model_validate_json(
        '{"rows":3,"labelled":3,"duplicates":1,"columns":{"y":{"rows":3,"missing":0,"infinite":0,"misshapen":0,'
        '"low":0,"high":1,"histogram":{"0":2,"32736":1},"values":{},"others":0,"forbidden":{},"forbidden_rows":0,'
        '"repeats":0,"type":"int64","hashes":[]}}}'
    )
    now = Profile(rows=1, labelled=1, columns={"y": ColumnProfile(rows=1, outside=0, predictive=0.5, type="int64")})
    both = total([before, now])
    assert (both.rows, both.duplicates, both.columns["y"].rows) == (4, 1, 4)
    assert (both.columns["y"].outside, both.columns["y"].predictive) == (None, None)
