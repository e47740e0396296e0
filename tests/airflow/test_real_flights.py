"""Real flights: a week through Airflow's backfill, with stages in containers. Two days of it by default, around a storm.

RATCHET_FULL=1 takes the whole week. Skipped where the data is not (see tests/real).
"""

import shutil
from datetime import date, timedelta

import pytest

from ratchet.contracts import summaries
from ratchet.store.ledger import records
from ratchet.store.opening import open_store
from tests.airflow.installation import Installation
from tests.real import flights
from tests.real.flights import STORM

PIPELINE = flights.PIPELINE.name
FIRST, LAST = (date(2013, 2, 4), date(2013, 2, 10)) if flights.FULL else (date(2013, 2, 7), date(2013, 2, 8))

pytestmark = [
    flights.NEEDED,
    pytest.mark.airflow,
    pytest.mark.docker,
    pytest.mark.heavy,
    pytest.mark.xdist_group("airflow"),
    pytest.mark.timeout(1800),
]


def test_a_backfill_judges_each_date_and_stops_at_the_storm(airflow: Installation) -> None:
    shutil.copytree(flights.PIPELINE, airflow.pipelines / PIPELINE)
    airflow.parse()
    airflow.unpause(PIPELINE)
    made = airflow.backfill(PIPELINE, FIRST.isoformat(), LAST.isoformat())
    runs = [run_id for run_id in made if run_id.startswith("backfill")]  # and not what the schedule starts
    assert len(runs) == (LAST - FIRST).days + 1
    ended = {}
    for run_id in runs:
        states = airflow.wait(PIPELINE, run_id, seconds=900)
        day = airflow.plan(PIPELINE, run_id).data_date
        ended[day] = states
        if day in STORM:
            assert (states["run"], states["validate"], states["train"]) == ("failed", "failed", "upstream_failed")
            assert states["report"] == "success"
        else:
            assert states["run"] == "success"
            judged = airflow.outcomes(PIPELINE, run_id)["evaluate"].result
            assert judged is not None
            assert summaries.judgement(judged).candidate_metrics["auc"] > 0.55
    assert sorted(ended) == [FIRST + timedelta(days=back) for back in range(len(runs))]
    assert records(open_store(airflow.services.store), PIPELINE) == ()
