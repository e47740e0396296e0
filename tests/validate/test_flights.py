"""Real data: the weekday rhythm is no alarm, and the snow storm of 8 and 9 February 2013 is one."""

from datetime import date, timedelta
from pathlib import Path

import pytest

from tasks.contracts import dates
from tasks.contracts.errors import DataRejected
from tests.ingest.night import Nights

FLIGHTS = Path(__file__).parents[3] / "shared" / "data" / "flights"
LABEL = "label_arr_delay_gt15"
COLUMNS = {
    "sched_dep_ts": {"role": "time", "type": "timestamp"},
    "carrier": {"role": "categorical", "type": "string"},
    "origin": {"role": "categorical", "type": "string", "in": ["EWR", "JFK", "LGA"]},
    "dest": {"role": "categorical", "type": "string"},
    "distance": {"role": "numeric", "type": "int64", "min": 0, "max_null": 0},
    LABEL: {"role": "label", "type": "int64", "in": [0, 1]},
}


@pytest.mark.skipif(not FLIGHTS.is_dir(), reason="the flights data are not here")
@pytest.mark.parametrize("tolerance", ["25%", "30%"])
def test_a_month_of_nights_stops_on_the_storm_alone(tmp_path: Path, tolerance: str) -> None:
    nights = Nights(
        tmp_path,
        source={"uri": f"{FLIGHTS}/date={{date}}/*.parquet", "window_days": 30},
        columns=COLUMNS,
        validate={"volume": {"against": "same_weekday", "tolerance": tolerance}, "drift": {"against": "window"}},
    )
    stopped: dict[date, str] = {}
    for day in dates.between(date(2013, 1, 30), date(2013, 2, 28)):
        try:
            nights.run("validate", day, {"ingest": nights.run("ingest", day)})
        except DataRejected as error:
            stopped[day] = error.cause
    storm = date(2013, 2, 8)
    assert list(stopped) == [storm, storm + timedelta(days=1)]
    assert f"column {LABEL}: volume: 455 labelled rows" in stopped[storm]
    assert "all rows: volume" not in stopped[storm]
