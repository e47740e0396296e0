"""The engine is restarted under a training that a running Airflow follows. The engine is the test's own."""

import gc
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.contracts import summaries
from tests.airflow.installation import Installation, ticks
from tests.airflow.shared import engine_of
from tests.faults.second_engine import NEEDS, SecondEngine
from tests.faults.supervised import RESTARTED, add

pytestmark = [
    *NEEDS,
    pytest.mark.airflow,
    pytest.mark.heavy,
    pytest.mark.xdist_group("airflow"),
]


@pytest.fixture
def engine(stage_image: str) -> Iterator[SecondEngine]:
    """With the stage image. The folder's path is short, for sockets have room for 107 bytes."""
    engine = SecondEngine(Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp")))
    try:
        engine.take_image(stage_image)
        engine.start()
        yield engine
    finally:
        engine.clear()


@pytest.fixture
def moved(airflow: Installation, engine: SecondEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """The shared Airflow, whose stages run in this engine for a while."""
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    engine_of(airflow.home, engine.address)
    try:
        yield airflow
    finally:
        monkeypatch.undo()
        engine_of(airflow.home)
        gc.collect()  # here, where the SDK's forgotten sockets are excused


def test_a_training_saves_its_work_and_goes_on_at_once_in_the_same_try(
    moved: Installation, engine: SecondEngine
) -> None:
    add(moved, RESTARTED)
    run_id = moved.night(RESTARTED)
    container = moved.until_ticking(RESTARTED, run_id)
    engine.stop()
    threading.Event().wait(5)
    engine.start()

    def train() -> dict[str, object]:
        return moved.api.tasks(RESTARTED, run_id)["train"]

    moved.until(lambda: set(moved.containers(RESTARTED, run_id)) - {container})
    moved.until(lambda: train()["state"] == "success")
    alerts = [alert for alert in moved.alerts() if alert["title"].startswith(f"{RESTARTED} ")]
    moved.api.call("PATCH", f"/dags/{RESTARTED}/dagRuns/{run_id.replace('+', '%2B')}", {"state": "failed"})
    assert train()["try_number"] == 1
    log = moved.log(RESTARTED, run_id, "train")
    for said in (
        "training received a notice to stop and has saved its state",
        "the Docker engine does not answer",
        "it answers again after",
        "it goes on at once (1 of at most",
    ):
        assert said in log
    result = moved.outcomes(RESTARTED, run_id)["train"].result
    assert result is not None
    resumed_from = summaries.trained(result).resumed_from
    assert resumed_from is not None
    assert 0 < resumed_from < len(ticks(log))
    assert alerts == []  # a preemption alerts nobody
