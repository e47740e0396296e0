"""Real flights: an ordinary Saturday, and nights around a snow storm. Skipped where the data is not (RATCHET_FLIGHTS).

RATCHET_FULL=1 takes the whole month instead of a few nights.
"""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from ratchet.contracts import dates
from tests.real.flights import FLIGHTS, FULL, NEEDED, PIPELINE, STORM
from tests.runs.nights import ratchet

LABEL = "label_arr_delay_gt15"
SATURDAY = date(2013, 2, 2)  # with a quarter fewer flights than other days, as every one
SPANS = (
    ((date(2013, 2, 1), date(2013, 3, 2)),) if FULL else ((SATURDAY, SATURDAY), (date(2013, 2, 7), date(2013, 2, 10)))
)
DAYS = [day.isoformat() for first, last in SPANS for day in dates.between(first, last)]
STORMY = {day.isoformat() for day in STORM}

pytestmark = [
    NEEDED,
    pytest.mark.heavy,
    pytest.mark.xdist_group("flights"),  # its nights are run once
    pytest.mark.timeout(3600),
]


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each night said, by date."""
    store = str(tmp_path_factory.mktemp("flights") / "store")
    arguments = ("run", str(PIPELINE), "--store", store, "--runner", "process", "--json")
    said: dict[str, Any] = {}
    for first, last in SPANS:
        ended = ratchet(
            *arguments, "--from", first.isoformat(), "--to", last.isoformat(), "--promote", "auto",
            environment={"RATCHET_DATA_FLIGHTS": str(FLIGHTS)},
        )  # fmt: skip
        said |= {night["date"]: night for night in ended.json}
        # The storm's days are refused, and the nights after them go on.
        assert ended.code == (65 if STORMY & set(said) else 0), ended.err[-3000:]
    return said


def test_a_storm_that_empties_a_day_stops_its_night_and_no_other(nights: dict[str, Any]) -> None:
    stopped = {day for day, night in nights.items() if night["error"]}
    assert stopped == STORMY
    for day in STORMY:
        assert "volume" in nights[day]["error"]["cause"]
        assert nights[day]["model"] is None
        assert [stage["name"] for stage in nights[day]["stages"]] == ["ingest", "validate", "report"]


def test_every_other_night_has_a_verdict_saturdays_too(nights: dict[str, Any]) -> None:
    judged = {day for day, night in nights.items() if night["verdict"]}
    assert judged == set(DAYS) - STORMY
    assert SATURDAY.isoformat() in judged
    assert SATURDAY.strftime("%A") == "Saturday"


def test_the_model_beats_a_constant_and_the_late_rate_by_carrier(nights: dict[str, Any]) -> None:
    """Over all nights: on a single one, the weather of the day can turn the carriers' order around."""
    ours, by_carrier = [], []
    for day, night in nights.items():
        if night["verdict"]:
            ours.append(night["metrics"]["candidate"]["auc"])
            by_carrier.append(_by_carrier(date.fromisoformat(day)))
    assert np.mean(ours) > 0.55
    assert np.mean(ours) > np.mean(by_carrier) + 0.02


def test_rows_without_a_label_are_dropped_and_counted(nights: dict[str, Any]) -> None:
    last = date.fromisoformat(DAYS[-1])
    page = Path(nights[DAYS[-1]]["report"]).read_text(encoding="utf-8")
    window = [last - timedelta(days=back) for back in range(30)]
    kept = [_flights(day) for day in window if day.isoformat() not in STORMY]
    unlabelled = sum(int(flights[LABEL].isna().sum()) for flights in kept)
    assert unlabelled > 600
    assert f"{unlabelled:,}" in page


def _flights(day: date) -> pd.DataFrame:
    return pd.read_parquet(FLIGHTS / f"date={day}" / "part-0.parquet")


def _by_carrier(day: date) -> float:
    """AUC on a day of each carrier's late rate over the 28 days that the model of that night trains on."""
    past = pd.concat([_flights(day - timedelta(days=back)) for back in range(2, 30)]).dropna(subset=[LABEL])
    rate = past.groupby("carrier")[LABEL].mean()
    today = _flights(day).dropna(subset=[LABEL])
    return float(roc_auc_score(today[LABEL], today["carrier"].map(rate).fillna(past[LABEL].mean())))
