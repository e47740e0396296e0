"""Real data: the weekday rhythm is no alarm, and the snow storm of 8 and 9 February 2013 is one."""

from datetime import date
from pathlib import Path

import pytest
import yaml

from tasks.contracts import dates
from tasks.contracts.errors import DataRejected
from tests.ingest.night import Nights
from tests.real.flights import FLIGHTS, NEEDED, PIPELINE, STORM

LABEL = "label_arr_delay_gt15"


@NEEDED
@pytest.mark.parametrize("tolerance", ["as the file has it", "25%"])
def test_a_month_of_nights_stops_on_the_storm_alone(
    tmp_path: Path, tolerance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_FLIGHTS", str(FLIGHTS))
    nights = Nights(tmp_path)
    nights.document = yaml.safe_load((PIPELINE / "pipeline.yaml").read_text(encoding="utf-8"))
    if tolerance.endswith("%"):
        nights.document["validate"]["volume"]["tolerance"] = tolerance
    stopped: dict[date, str] = {}
    for day in dates.between(date(2013, 1, 30), date(2013, 2, 28)):
        try:
            nights.run("validate", day, {"ingest": nights.run("ingest", day)})
        except DataRejected as error:
            stopped[day] = error.cause
    storm = min(STORM)
    assert set(stopped) == STORM
    assert f"column {LABEL}: volume: 455 labelled rows" in stopped[storm]
    assert "all rows: volume" not in stopped[storm]
