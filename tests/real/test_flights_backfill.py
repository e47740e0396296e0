"""Real flights: a week through Airflow's backfill, with stages in containers. Two days of it by default, around a storm.

RATCHET_FULL=1 takes the whole week. Skipped where the data is not (see test_flights.py).
"""

import os
import shutil
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from tasks.contracts import documents
from tasks.runtime.ledger import records
from tasks.runtime.store.opening import open_store
from tests.airflow.installation import Installation
from tests.runs.nights import ROOT

FLIGHTS = Path(os.environ.get("RATCHET_FLIGHTS", ROOT.parent / "shared" / "data" / "flights"))
PIPELINE = "late-flights"
FULL = os.environ.get("RATCHET_FULL") == "1"
FIRST, LAST = (date(2013, 2, 4), date(2013, 2, 10)) if FULL else (date(2013, 2, 7), date(2013, 2, 8))
STORM = {date(2013, 2, 8), date(2013, 2, 9)}

pytestmark = [
    pytest.mark.skipif(not FLIGHTS.is_dir(), reason="the flights are not here"),
    pytest.mark.airflow,
    pytest.mark.docker,
    pytest.mark.heavy,
    pytest.mark.timeout(1800),
]


@pytest.fixture
def airflow(tmp_path_factory: pytest.TempPathFactory, stage_image: str) -> Iterator[Installation]:
    """A running Airflow that has the flights' pipeline alone."""
    home = tmp_path_factory.mktemp("flights")
    for folder in (home, *home.parents[:2]):
        folder.chmod(0o755)  # containers are not root, and pytest's own folders are for their owner alone
    made = Installation(
        home, {"RATCHET_RUNNER": "docker", "RATCHET_STAGE_IMAGE": stage_image, "RATCHET_FLIGHTS": str(FLIGHTS)}
    )
    shutil.copytree(Path(__file__).parent / PIPELINE, made.pipelines / PIPELINE)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_a_backfill_judges_each_date_and_stops_at_the_storm(airflow: Installation) -> None:
    airflow.api.wait_for_dag(PIPELINE)
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
            assert documents.judgement(judged).candidate_metrics["auc"] > 0.55
    assert sorted(ended) == [FIRST + timedelta(days=back) for back in range(len(runs))]
    assert records(open_store(airflow.services.store), PIPELINE) == ()
