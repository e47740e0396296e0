"""A secret that a stage needs, and fails with, is found nowhere: not in logs, the UI, XCom, alerts, the store, inspect."""

import json
import time

import pytest

from ratchet.contracts.labels import Label
from tests.airflow.installation import ENDED, Installation
from tests.airflow.shared import CANARY
from tests.faults.inspected import inspected
from tests.faults.supervised import SECRET, add

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.docker,
    pytest.mark.heavy,
    pytest.mark.xdist_group("airflow"),
]


def test_the_secret_of_a_source_is_found_nowhere(airflow: Installation) -> None:
    add(airflow, SECRET)
    began = time.time()
    run_id = airflow.night(SECRET)
    airflow.until(lambda: airflow.api.tasks(SECRET, run_id)["plan"]["state"] == "success", seconds=120)
    stored = airflow.plan(SECRET, run_id).run_id
    with inspected(f"{Label.RUN}={stored}", began) as seen:

        def over() -> bool:
            is_seen = any(f'"{Label.STAGE}": "ingest"' in text for text in list(seen))
            return is_seen or airflow.api.tasks(SECRET, run_id)["ingest"]["state"] in ENDED

        airflow.until(over, seconds=180)
    assert any(f'"{Label.STAGE}": "ingest"' in text for text in seen)
    assert not any(CANARY in text for text in seen)

    airflow.until(lambda: airflow.api.tasks(SECRET, run_id)["ingest"]["state"] == "up_for_reschedule", seconds=180)
    log = airflow.log(SECRET, run_id, "ingest")
    assert "@127.0.0.1:1/shop' does not answer" in log  # it waits for the reason that we mean
    path = f"/dags/{SECRET}/dagRuns/{run_id.replace('+', '%2B')}"
    shown = [
        airflow.api.call("GET", f"{path}/taskInstances?limit=100"),
        airflow.api.call("GET", f"{path}/taskInstances/plan/xcomEntries"),
        airflow.api.call("GET", f"/dags/{SECRET}/details"),
        airflow.alerts(),
        log,
    ]
    assert CANARY not in json.dumps(shown)
    airflow.api.call("PATCH", path, {"state": "failed"})
    leaks = [
        file.relative_to(airflow.home)
        for file in airflow.home.rglob("*")
        if file.is_file() and CANARY.encode() in file.read_bytes()
    ]
    assert leaks == []
