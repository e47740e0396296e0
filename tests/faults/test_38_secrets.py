"""A secret that a stage needs, and fails with, is found nowhere: not in logs, the UI, XCom, alerts, the store, inspect."""

import json
import subprocess

import pytest

from tests.airflow.installation import ENDED
from tests.faults.supervised import CANARY, SECRET, Faulted

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.docker,
    pytest.mark.heavy,
    pytest.mark.xdist_group("faulted"),
]


def inspected(run: str) -> str:
    """All that the engine tells about a run's containers, as they are now."""
    listed = ["docker", "ps", "--all", "--quiet", "--no-trunc", "--filter", f"label=ratchet.run={run}"]
    handles = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
    if not handles:
        return ""
    return subprocess.run(["docker", "inspect", *handles], capture_output=True, text=True, check=False).stdout


def test_the_secret_of_a_source_is_found_nowhere(faulted: Faulted) -> None:
    run_id = faulted.night(SECRET)
    faulted.until(lambda: faulted.api.tasks(SECRET, run_id)["plan"]["state"] == "success", seconds=120)
    stored = faulted.plan(SECRET, run_id).run_id
    seen: list[str] = []

    def over() -> bool | None:
        if text := inspected(stored):
            seen.append(text)
        if seen and '"ratchet.stage": "ingest"' in "".join(seen):
            return True
        return faulted.api.tasks(SECRET, run_id)["ingest"]["state"] in ENDED or None

    faulted.until(over, seconds=180)
    assert any('"ratchet.stage": "ingest"' in text for text in seen)
    assert not any(CANARY in text for text in seen)

    faulted.until(lambda: faulted.api.tasks(SECRET, run_id)["ingest"]["try_number"] > 1, seconds=180)
    log = faulted.log(SECRET, run_id, "ingest")
    assert "sqlite:////nowhere/${SHOP_PASSWORD}/shop.db" in log  # it failed for the reason that we mean
    path = f"/dags/{SECRET}/dagRuns/{run_id.replace('+', '%2B')}"
    shown = [
        faulted.api.call("GET", f"{path}/taskInstances?limit=100"),
        faulted.api.call("GET", f"{path}/taskInstances/plan/xcomEntries"),
        faulted.api.call("GET", f"/dags/{SECRET}/details"),
        faulted.alerts(),
        log,
    ]
    assert CANARY not in json.dumps(shown)
    faulted.api.call("PATCH", path, {"state": "failed"})
    leaks = [
        file.relative_to(faulted.home)
        for file in faulted.home.rglob("*")
        if file.is_file() and CANARY.encode() in file.read_bytes()
    ]
    assert leaks == []
