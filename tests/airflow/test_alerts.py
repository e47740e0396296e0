"""Alerts of a real Airflow: each event is reported once, whatever was killed."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from ratchet.contracts.errors import Unavailable
from ratchet.contracts.labels import Label
from ratchet_airflow.alerts import delivery
from ratchet_airflow.watch.airflow_server import AirflowServer
from ratchet_airflow.watch.scan import Scanner
from tests.airflow.conftest import day, messages, pipeline_file
from tests.airflow.installation import Installation
from tests.airflow.shared import PIPELINE
from tests.plugins.webhook import Webhook

CPU = "ratchet_cpu"
Look = Callable[[], bool]
pytestmark = [
    pytest.mark.airflow,
    pytest.mark.docker,
    pytest.mark.heavy,
    pytest.mark.xdist_group("airflow"),
    pytest.mark.filterwarnings("ignore:'imghdr' is deprecated"),  # Apprise's own import
]
UNLUCKY = """import os


def derive(df):
    print("no luck", flush=True)
    os._exit(69)
"""
SLOW = """import time


def derive(df):
    time.sleep(120)
"""


@pytest.fixture(scope="module", autouse=True)
def oncall(airflow: Installation, webhook: Webhook) -> None:
    """Alerts to `oncall` go to the webhook too, by a connection of Airflow's.

    It is asked for again: while a run starts on a busy machine, Airflow's SQLite may be locked for half a minute.
    """
    wanted = {"connection_id": "ratchet_alerts_oncall", "conn_type": "generic", "password": webhook.url}

    def is_there() -> bool:
        with suppress(Unavailable):
            airflow.api.call("POST", "/connections", wanted)
        known = airflow.api.call("GET", "/connections")["connections"]
        return any(one["connection_id"] == wanted["connection_id"] for one in known)

    airflow.until(is_there, seconds=300)


@pytest.fixture(scope="module")
def look_again(airflow: Installation) -> Look:
    """One more scan, by another watch than that of the set-up; it must find nothing that was not reported."""
    server = AirflowServer(airflow.services.watch_address)
    scanner = Scanner(server)

    def look() -> bool:
        asks = patch.object(delivery, "_asks", [server.receiver])
        with airflow._environment(), patch.dict(os.environ, airflow.services.environment()), asks:
            return scanner.scan()

    return look


def test_a_task_killed_without_a_word_is_reported_once(
    airflow: Installation, webhook: Webhook, look_again: Look
) -> None:
    name = add(airflow, "killed", SLOW, retries=0)
    run_id = airflow.night(name)

    def process() -> int | None:
        task = airflow.api.tasks(name, run_id)["features"]
        return task["pid"] if task["state"] == "running" else None

    pid = airflow.until(process)
    watch = airflow.server("watch")
    assert watch.process is not None
    os.kill(watch.process.pid, signal.SIGKILL)  # the supervisor starts another, which finds what happens now
    os.kill(pid, signal.SIGKILL)
    states = airflow.wait(name, run_id)
    assert (states["run"], states["features"], states["train"]) == ("failed", "failed", "upstream_failed")
    alerts = airflow.until(lambda: messages(webhook, "killed 20", "features"))
    look_again()
    airflow.until(lambda: callback_was_called(airflow, name, run_id))
    (only,) = messages(webhook, "killed 20", "features")
    airflow.running("watch", restarts=watch.restarts + 1)
    assert only == alerts[0]
    assert only["title"].endswith("features failed")
    assert "Cause: the process ended without reporting a cause" in only["message"]
    assert f"Log: {airflow.services.airflow_url}/dags/{name}/runs/" in only["message"]
    remove_containers(airflow, run_id)


def test_a_run_that_misses_finish_by_is_reported_once(airflow: Installation, webhook: Webhook) -> None:
    (late,) = airflow.until(lambda: messages(webhook, "killed 20", "run is late"))
    assert " past its limit of 1s (schedule.finish_by)" in late["message"]


def test_a_cause_that_comes_again_is_one_alert_and_giving_up_another(
    airflow: Installation, webhook: Webhook, look_again: Look
) -> None:
    name = add(airflow, "unlucky", UNLUCKY, retries=2)
    run_id = airflow.night(name)
    assert airflow.wait(name, run_id)["run"] == "failed"
    assert airflow.api.tasks(name, run_id)["features"]["try_number"] == 3
    look_again()
    airflow.until(lambda: len(messages(webhook, "unlucky 20", "features")) > 1)
    first, last = messages(webhook, "unlucky 20", "features")
    assert "features failed and will be retried" in first["title"]
    assert "Try: 1 of 3" in first["message"]
    assert "Decision: retry after a growing delay, because a service" in first["message"]
    assert "as try 2 of 3" in first["message"]
    assert last["title"].endswith("features failed")
    assert "Try: 3 of 3" in last["message"]
    assert "no luck" in last["message"]


def test_a_backfill_of_three_dates_is_one_summary(airflow: Installation, webhook: Webhook, look_again: Look) -> None:
    name = "unlucky"
    wanted = [day(5), day(4), day(3)]
    runs = airflow.backfill(name, wanted[0], wanted[-1])
    for run_id in runs:
        assert airflow.wait(name, run_id)["run"] == "failed"
    airflow.until(lambda: messages(webhook, name, "backfill"))
    look_again()
    (summary,) = messages(webhook, name, "backfill")
    assert summary["title"] == f"{name} {wanted[0]} to {wanted[-1]}: backfill has finished"
    assert "Cause: 3 dates: 3 failed" in summary["message"]
    for date in wanted:
        assert f"  {date}  failed: features: " in summary["message"]
        assert messages(webhook, f"{name} {date}: ") == []
        assert any(alert["title"].startswith(f"{name} {date}: features") for alert in airflow.alerts())


def test_a_run_that_does_not_move_is_reported_once(airflow: Installation, webhook: Webhook, look_again: Look) -> None:
    pool = airflow.api.call("GET", f"/pools/{CPU}")
    pool = {"pool": CPU, "slots": pool["slots"], "include_deferred": pool["include_deferred"]}
    airflow.api.call("PATCH", f"/pools/{CPU}?update_mask=slots", {**pool, "slots": 0})
    try:
        run_id = airflow.trigger("unlucky", date=day(6))
        airflow.until(lambda: airflow.api.tasks("unlucky", run_id)["ingest"]["state"] == "scheduled")
        look_again()
        assert messages(webhook, "unlucky", "is stuck") == []
        airflow.hours_pass(run_id, 10)
        for _ in range(2):
            look_again()
        (alert,) = messages(webhook, "unlucky", "is stuck")
    finally:
        airflow.api.call("PATCH", f"/pools/{CPU}?update_mask=slots", pool)
    assert alert["title"].startswith(f"unlucky {day(6)}: ")
    assert "Cause: no task has changed its state since " in alert["message"]
    assert "ingest is scheduled" in alert["message"]
    assert (
        "What to do: check that the scheduler and the workers run, and that the pools of the tasks have free slots"
        in alert["message"]
    )
    # It moves again as soon as it can; how it ends is another test's subject.
    airflow.until(lambda: airflow.api.tasks("unlucky", run_id)["ingest"]["state"] == "success")
    airflow.api.call("PATCH", f"/dags/unlucky/dagRuns/{run_id.replace('+', '%2B')}", {"state": "failed"})


def add(airflow: Installation, name: str, features: str, *, retries: int) -> str:
    """A pipeline whose features come from `features`, and whose alerts go to `oncall`."""
    text = pipeline_file(airflow, PIPELINE).read_text(encoding="utf-8").replace("[mlops]", "[oncall]")
    text = text.replace(f"name: {PIPELINE}", f"name: {name}").replace(f"model: {PIPELINE}", f"model: {name}")
    text = text.replace("stages: {", f"stages: {{features: {{retries: {retries}, retry_delay: 1s}}, ")
    text = text.replace("finish_by: 4h", "finish_by: 1s")
    assert f"retries: {retries}" in text
    airflow.add(name, text, {"features.py": features})
    return name


def callback_was_called(airflow: Installation, name: str, run_id: str) -> bool:
    """Whether the DAG processor has called the DAG's own callback."""
    folder: Path = airflow.services.airflow_home / "logs" / "dag_processor"
    said = "Executing on_failure dag callback"
    return any(
        said in line and name in line for file in folder.rglob("*.log") for line in file.read_text().splitlines()
    )


def remove_containers(airflow: Installation, run_id: str) -> None:
    """Remove what the killed task left."""
    listed = ["docker", "ps", "-aq", "--filter", f"label={Label.RUN}={stored(airflow, run_id)}"]
    for container in subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split():
        subprocess.run(["docker", "rm", "-f", "-v", container], capture_output=True, check=False)


def stored(airflow: Installation, run_id: str) -> str:
    """A run's id as labels have it."""
    from ratchet_airflow.run_id import store_run_id

    return store_run_id(run_id, airflow.services.installation)
