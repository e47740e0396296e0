"""One odd day, a weekend, or late labels: a rule says no more, and no less, than the days of the window can show."""

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ratchet.contracts.checks import Volume
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Check
from tasks.validate import label_rate
from tasks.validate.data_date import check_earlier_days
from tasks.validate.duplicates import check_redelivery
from tasks.validate.examples import example_rows
from tasks.validate.leak import check_leak
from tasks.validate.measuring import measure
from tasks.validate.profile import ColumnProfile, KeyProfile, Profile
from tasks.validate.repeats import check_repeats
from tasks.validate.rules import check_columns
from tasks.validate.slice_volume import check_slices
from tasks.validate.times import bounds, check_times

MONDAY = date(2026, 3, 2)
COLUMNS: dict[str, Any] = {
    "at": {"role": "time", "type": "timestamp"},
    "ticket": {"role": "id", "type": "int64"},
    "x": {"role": "numeric", "type": "float64"},
    "y": {"role": "label", "type": "int64", "max_null": 0.1},
}


def spec(columns: dict[str, Any] | None = None, **sections: Any) -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            "name": "odd",
            "source": {"kind": "files", "uri": "/x/{date}"},
            "columns": COLUMNS | (columns or {}),
            "train": {"objective": "binary"},
            **sections,
        }
    )


OF = spec()


def by_day(found: list[Any], first: date = MONDAY) -> dict[date, Any]:
    return {first + timedelta(days=place): one for place, one in enumerate(found)}


def label(share: float, rows: int = 2_000) -> Profile:
    positive = round(share * rows)
    return Profile(
        rows=rows,
        labelled=rows,
        columns={"y": ColumnProfile(rows=rows, values={"0": rows - positive, "1": positive}, type="int64")},
    )


def severities(checks: Any) -> list[str]:
    return [check.severity for check in checks if not check.passed]


def test_a_first_weekend_warns_of_its_label_rate_and_a_second_one_fails() -> None:
    def judged(shares: list[float]) -> list[Check]:
        rates = {day: label_rate.rates(one, OF) for day, one in by_day([label(share) for share in shares]).items()}
        return list(label_rate.check_label_rate(max(rates), rates, OF, "fail"))

    assert severities(judged([0.1] * 5 + [0.2])) == ["warning"]
    assert severities(judged([0.1] * 4 + [0.4])) == ["error"]  # a Friday
    assert severities(judged([0.1] * 5 + [0.2, 0.2])) == []
    assert severities(judged([0.1] * 5 + [0.1, 0.3])) == ["error"]


def test_rates_are_computed_once_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, rates = [], label_rate.rates

    def counted(found: Profile, of: PipelineSpec) -> label_rate.Rates:
        measured.append(found)
        return rates(found, of)

    monkeypatch.setattr("tasks.validate.data_date.rates", counted)
    x, y = {"role": "numeric", "type": "float64"}, {"role": "label", "type": "int64"}
    of = PipelineSpec.model_validate(
        {
            "name": "odd",
            "source": {"kind": "files", "uri": "/x/{date}"},
            "columns": {"x": x, "y": y},
            "train": {"objective": "binary"},
            "validate": {"label_delay_days": 1},
        }
    )
    days = by_day([label(share) for share in (0.1, 0.1, 0.1, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1)])
    for found in days.values():
        found.columns["x"] = ColumnProfile(rows=found.rows, type="float64")
    failed = check_earlier_days(days, max(days), of)
    assert len(measured) == len(days) - 1
    assert [day for day, checks in failed.items() if checks] == [MONDAY + timedelta(days=3)]


def test_labels_that_may_still_arrive_are_not_missing() -> None:
    columns = {name: ColumnProfile(rows=100, type=column.type) for name, column in OF.columns.items()}
    columns["y"] = ColumnProfile(rows=100, missing=60, values={"0": 30, "1": 10}, type="int64")
    found = Profile(rows=100, labelled=40, columns=columns)
    late = check_columns(MONDAY, found, OF, is_data_date=True, has_labels=False)
    assert [check.rule for check in late if not check.passed] == []
    assert [check.rule for check in check_columns(MONDAY, found, OF, is_data_date=True) if not check.passed] == ["null"]


@pytest.mark.parametrize(("odd", "severity"), [([0.049], "error"), ([0.049, 0.049], "warning")])
def test_one_odd_day_does_not_make_late_rows_usual(odd: list[float], severity: str) -> None:
    shares = [*odd, *[0.0] * (6 - len(odd)), 0.14]
    days = by_day(
        [Profile(rows=1_000, columns={"at": ColumnProfile(rows=1_000, outside=round(one * 1_000))}) for one in shares]
    )
    (check,) = check_times(max(days), days, {}, OF, "fail")
    assert (check.passed, check.severity) == (severity == "warning", "error")


@pytest.mark.parametrize(
    ("source", "zones", "severity"),
    [
        ({}, {}, "warning"),
        ({}, {"at": False}, "error"),  # the clock of the wall, whatever the zone
        ({"timezone": "Europe/London"}, {}, "error"),
    ],
)
def test_the_zone_of_the_schedule_alone_refuses_no_night(
    source: dict[str, str], zones: dict[str, bool], severity: str
) -> None:
    of = spec(
        source={"kind": "files", "uri": "/x/{date}", **source},
        schedule={"cron": "0 5 * * *", "timezone": "Europe/London"},
    )
    days = by_day([Profile(rows=9, columns={"at": ColumnProfile(rows=9, outside=one)}) for one in (0, 0, 9)])
    (check,) = check_times(max(days), days, zones, of, "fail")
    assert (check.passed, check.severity) == (False, severity)
    assert ("see source.timezone" in check.allowed) == (severity == "warning")
    assert of.check_parts(MONDAY) != spec(schedule={"cron": "0 5 * * *"}).check_parts(MONDAY)


def test_times_without_a_zone_are_in_utc_where_the_query_has_the_bounds_of_the_day() -> None:
    def first(where: str) -> datetime:
        source = {"kind": "sql", "uri": "sqlite:////x.db", "query": f"SELECT * FROM t WHERE {where}"}
        of = spec(source={**source, "timezone": "Europe/Berlin"})
        return bounds(of, MONDAY, {"at": False})["at"][0]

    assert first("at >= :start AND at < :end") == datetime(2026, 3, 1, 23)
    assert first("day = :date") == datetime(2026, 3, 2)


def test_one_odd_day_does_not_make_repeats_usual() -> None:
    days = by_day([Profile(rows=1_000, duplicates=one) for one in (40, 0, 0, 0, 0, 0, 100)])
    assert severities(check for check in check_repeats(days, max(days), OF) if check.day == max(days)) == ["error"]


def test_one_odd_day_does_not_make_a_leak_usual() -> None:
    powers = (0.88, 0.1, 0.1, 0.1, 0.1, 0.97)
    days = by_day([Profile(columns={"x": ColumnProfile(rows=9, predictive=one)}) for one in powers])
    today = max(days)
    assert severities(check_leak(today, days.pop(today), days, OF, "fail")) == ["error"]


def test_one_day_that_came_twice_does_not_make_shared_rows_usual() -> None:
    def hashes(place: int) -> tuple[int, ...]:
        return tuple(place * 1_000 + one for one in range(200))

    def found(place: int) -> Profile:
        return Profile(rows=200, hashes=hashes(place), keys={"ticket": KeyProfile(rows=200, hashes=hashes(place))})

    for places, severity in (([0, 1, 2, 2, 3, 4, 4], ["error"] * 2), ([1, 1, 1, 1, 1, 4, 4], [])):
        days = by_day([found(place) for place in places])
        assert severities(check_redelivery(max(days), days, "fail")) == severity


def test_a_value_that_each_day_has_may_not_vanish_whatever_the_tolerance() -> None:
    of = spec({"x": {"role": "categorical", "type": "string"}}, validate={"volume": {"by": ["x"]}})

    def judged(counts: list[int], tolerance: float) -> list[str]:
        days = by_day(
            [Profile(rows=1_000 + one, columns={"x": ColumnProfile(rows=1, values={"a": one} if one else {})})
             for one in counts]
        )  # fmt: skip
        today = max(days)
        rule = Volume(by=("x",), tolerance=tolerance)
        return severities(check_slices(today, days.pop(today), days, rule, of))

    assert judged([400] * 9 + [0], 0.5) == ["error"]
    assert judged([400] * 9 + [80], 0.5) == ["error"]  # a quarter is 100
    assert judged([400] * 9 + [101], 0.5) == []
    assert judged([400] * 9 + [0], 1.5) == ["error"]
    assert judged([400] * 9 + [1], 1.5) == []


@pytest.mark.parametrize(
    ("kind", "allowed", "values", "shown"),
    [
        ("float64", [1, 2, 3], [1.0, 7.0, None], "7.0"),
        ("date", ["2026-03-02"], [date(2026, 3, 2), date(2026, 3, 3), None], "2026-03-03"),
        ("timestamp", ["2026-03-02T00:00:00"], [datetime(2026, 3, 2), datetime(2026, 3, 3), None], "2026-03-03 00:00:00"),
        ("string", ["a"], ["a", "b", None], "b"),
    ],
)  # fmt: skip
def test_a_value_that_in_does_not_allow_is_shown(
    tmp_path: Path, kind: str, allowed: list[Any], values: list[Any], shown: str
) -> None:
    of, path = spec({"ticket": {"role": "ignore", "type": kind, "in": allowed}}), tmp_path / "day.parquet"
    frame = pl.DataFrame({"at": [datetime(2026, 3, 2)] * 3, "x": [1.0] * 3, "y": [0, 1, 1], "ticket": values})
    frame.write_parquet(path)
    checks = check_columns(MONDAY, measure(path, of), of, is_data_date=True)
    (found,) = example_rows(path, [one for one in checks if one.rule == "in"], of, {}, {})
    assert [*found.rows] == [("1", shown)]


def test_rows_that_cannot_be_searched_for_stop_no_night(tmp_path: Path) -> None:
    path = tmp_path / "day.parquet"
    pl.DataFrame({"x": ["a", "b"]}).write_parquet(path)
    check = Check(day=MONDAY, rule="min", column="x", passed=False, observed="-1", allowed="0", key="columns.x.min")
    assert example_rows(path, [check], spec({"x": {"role": "numeric", "type": "float64", "min": 0}}), {}, {}) == []
