"""A scheduled night whose data are late: it waits without a worker, and goes on in the same try when they have come."""

import shutil

import pytest

from tests.airflow.conftest import pipeline_file
from tests.airflow.installation import YESTERDAY, Installation
from tests.airflow.shared import PIPELINE

pytestmark = [pytest.mark.airflow, pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("airflow")]
LATE = "late-source"


def test_a_night_waits_for_its_data_without_a_worker_and_uses_no_try(airflow: Installation) -> None:
    data = airflow.services.data
    shutil.copytree(data / "clicks", data / "late")
    day = data / "late" / f"date={YESTERDAY}"
    away = day.rename(data / "away")
    text = pipeline_file(airflow, PIPELINE).read_text(encoding="utf-8")
    airflow.add(LATE, text.replace("/clicks/", "/late/").replace(PIPELINE, LATE))
    run_id = airflow.night(LATE)

    def ingest() -> dict[str, object]:
        return airflow.api.tasks(LATE, run_id).get("ingest", {})

    airflow.until(lambda: ingest().get("state") == "up_for_reschedule")
    away.rename(day)
    states = airflow.wait(LATE, run_id)
    assert states["run"] == "success"
    assert ingest()["try_number"] == 1
    log = airflow.log(LATE, run_id, "ingest")
    assert f"the source has no files for {YESTERDAY} yet; waiting at most " in log
    assert f"the source has changed; planned again: {YESTERDAY}" in log
