"""When a day begins and ends for its rows, and the drift that is limited by other measures than the PSI."""

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ratchet.contracts.checks import Drift
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Check
from tasks.validate.drift import check_drift, last_week
from tasks.validate.measuring import measure
from tasks.validate.profile import Profile, total
from tasks.validate.times import bounds, check_times
from tests.validate.references import reference

DAY = date(2026, 3, 29)  # clocks go forward in Berlin
ROWS = 400


def spec(kind: str, timezone: str = "UTC", starts: str = "00:00", objective: str = "binary") -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            "name": "times",
            "source": {"kind": "files", "uri": "/x/{date}", "timezone": timezone, "day_starts": starts},
            "columns": {
                "at": {"role": "time", "type": kind},
                "query": {"role": "group", "type": "int64"},
                "x": {"role": "numeric", "type": "float64"},
                "y": {"role": "label", "type": "int64"},
            },
            "train": {"objective": objective},
        }
    )


def profile(
    folder: Path,
    of: PipelineSpec,
    day: date,
    moments: list[Any],
    zones: dict[str, bool] | None = None,
    shift: float = 0,
) -> Profile:
    generator = np.random.default_rng(day.toordinal())
    type_ = pl.Date if of.columns["at"].type == "date" else pl.Datetime("us")
    frame = pl.DataFrame(
        {
            "at": pl.Series(moments * (ROWS // len(moments)), dtype=type_),
            "query": np.arange(ROWS) // 4,
            "x": generator.normal(shift, 1, ROWS),
            "y": generator.integers(0, 2, ROWS),
        }
    )
    path = folder / f"{day}.parquet"
    frame.write_parquet(path)
    return measure(path, of, bounds(of, day, zones or {}))


def judged(of: PipelineSpec, days: dict[date, Profile], zones: dict[str, bool] | None = None) -> list[Check]:
    return list(check_times(DAY, days, zones or {}, of, "fail"))


@pytest.mark.parametrize(
    ("zones", "first", "outside"),
    [({}, datetime(2026, 3, 28, 23), 1), ({"at": True}, datetime(2026, 3, 28, 23), 1), ({"at": False}, None, 2)],
)
def test_a_zone_decides_when_a_day_begins(
    tmp_path: Path, zones: dict[str, bool], first: datetime | None, outside: int
) -> None:
    """In UTC the day of Berlin has 23 hours from 23:00 on; without a zone it is that of the wall clock."""
    of = spec("timestamp", "Europe/Berlin")
    assert bounds(of, DAY, zones)["at"][0] == (first or datetime(2026, 3, 29))
    moments = [
        datetime(2026, 3, 28, 23),
        datetime(2026, 3, 29, 21, 59),
        datetime(2026, 3, 30),
        datetime(2026, 3, 29, 1),
    ]
    found = profile(tmp_path, of, DAY, moments, zones)
    assert found.columns["at"].outside == outside * ROWS // 4


def test_a_date_is_the_day_itself_whenever_days_begin(tmp_path: Path) -> None:
    of = spec("date", starts="04:00")
    before = DAY - timedelta(days=1)
    days = {before: profile(tmp_path, of, before, [before]), DAY: profile(tmp_path, of, DAY, [DAY])}
    assert [check.passed for check in judged(of, days)] == [True]
    days[DAY] = profile(tmp_path, of, DAY, [before])
    (check,) = judged(of, days)
    assert (check.passed, check.severity, check.allowed) == (False, "error", "2026-03-29")
    assert check.observed == "400 rows outside (100 %), 2026-03-28 to 2026-03-28"


def test_a_day_without_times_is_not_compared_by_name(tmp_path: Path) -> None:
    of = spec("timestamp")
    (check,) = judged(of, {DAY: profile(tmp_path, of, DAY, [None])})
    assert (check.passed, check.severity, check.observed) == (False, "warning", "not compared: no row has a time")
    (check,) = judged(of, {DAY: profile(tmp_path, of, DAY, [datetime(2026, 3, 29), datetime(2026, 3, 30)] * 5)})
    assert (check.passed, check.severity) == (False, "warning")  # half of them, and no other day says what is usual


def test_drift_against_last_week_and_by_jensen_shannon(tmp_path: Path) -> None:
    of, noon = spec("date", objective="ranking"), [DAY]
    days = {
        DAY - timedelta(days=back): profile(tmp_path, of, DAY - timedelta(days=back), noon, shift=3 * (back > 7))
        for back in range(1, 15)
    }
    week = total(days[day] for day in last_week(days))
    assert week.rows == 7 * ROWS
    today = profile(tmp_path, of, DAY, noon)
    assert today.columns["x"].predictive is not None
    against = reference(week, "last week", days)
    checks, found = check_drift(DAY, today, against, Drift(js=0.1), of)
    assert [check.passed for check in checks] == [True, True]
    assert found.psi["x"] == found.psi_last_week["x"]
    shifted = profile(tmp_path, of, DAY, noon, shift=3)
    checks, found = check_drift(DAY, shifted, against, Drift(js=0.1, on_breach="warn"), of)
    assert [check.severity for check in checks if not check.passed] == ["warning"] * len(checks)
    assert checks[1].allowed == "a Jensen-Shannon divergence of at most 0.1 against last week"
    assert 0.5 < found.js["x"] <= 1
