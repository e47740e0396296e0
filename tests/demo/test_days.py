"""The demo's days: one world, whatever the date."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from demo import days

DATES = (date(2026, 11, 22), date(2031, 2, 28))


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[date, list[pd.DataFrame]]:
    """The last three days of the demo by the date that it runs on."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(days, "COUNT", 3)
        for last in DATES:
            paths = days.write(tmp_path_factory.mktemp("data"), last=last)
            found[last] = [pd.read_parquet(path) for path in paths]
    return found


def test_all_but_the_dates_is_the_same_on_any_date(worlds: dict[date, list[pd.DataFrame]]) -> None:
    for one, other in zip(*worlds.values(), strict=True):
        pd.testing.assert_frame_equal(one.drop(columns="shown_at"), other.drop(columns="shown_at"))
        moved = other["shown_at"] - one["shown_at"]
        assert set(moved) == {DATES[1] - DATES[0]}


def test_each_day_has_rows_of_its_own_date_alone(worlds: dict[date, list[pd.DataFrame]]) -> None:
    for last, frames in worlds.items():
        for back, frame in enumerate(reversed(frames)):
            assert set(frame["shown_at"].dt.date) == {last - timedelta(days=back)}


def test_on_the_last_day_alone_prices_are_in_cents(worlds: dict[date, list[pd.DataFrame]]) -> None:
    medians = [frame["price"].median() for frame in worlds[DATES[0]]]
    assert medians[2] / medians[1] == pytest.approx(100, rel=0.2)
    assert medians[1] / medians[0] == pytest.approx(1, rel=0.2)
    assert not np.isnan(medians).any()


def test_written_twice_the_files_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(days, "COUNT", 2)
    before = {path: path.stat().st_mtime_ns for path in days.write(tmp_path, last=DATES[0])}
    assert {path: path.stat().st_mtime_ns for path in days.write(tmp_path, last=DATES[0])} == before
