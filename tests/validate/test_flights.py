"""Real data: the weekday rhythm raises no alarm, and the snow storm of 8 and 9 February 2013 raises one."""

from datetime import date
from pathlib import Path

import pytest
import yaml

from ratchet.contracts import dates
from ratchet.contracts.errors import DataRejected
from tests.real.flights import FLIGHTS, NEEDED, PIPELINE, STORM
from tests.world import clicks

LABEL = "label_arr_delay_gt15"


@NEEDED
def test_a_month_of_nights_stops_on_the_storm_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_DATA_FLIGHTS", str(FLIGHTS))
    world = clicks(tmp_path)
    world.document = yaml.safe_load((PIPELINE / "pipeline.yaml").read_text(encoding="utf-8"))
    volume = world.document["validate"]["volume"]
    stopped: dict[str, dict[date, str]] = {volume["tolerance"]: {}, "25%": {}}
    for day in dates.between(date(2013, 1, 30), date(2013, 2, 28)):
        ingested = world.run("ingest", day)
        for tolerance, causes in stopped.items():
            volume["tolerance"] = tolerance
            try:
                world.run("validate", day, {"ingest": ingested})
            except DataRejected as error:
                causes[day] = error.cause
    storm = min(STORM)
    assert len(stopped) == 2
    for causes in stopped.values():
        assert set(causes) == STORM
        assert f"column {LABEL}: volume: 455 labelled rows" in causes[storm]
        assert "all rows: volume" not in causes[storm]
