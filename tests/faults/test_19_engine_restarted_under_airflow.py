"""The engine is restarted under a training that a running Airflow follows. The engine is the test's own."""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.contracts import documents
from tests.faults.second_engine import NEEDS, SecondEngine
from tests.faults.supervised import RESTARTED, Faulted, supervised, ticks

pytestmark = [
    *NEEDS,
    pytest.mark.airflow,
    pytest.mark.heavy,
    pytest.mark.xdist_group("engine-restarted"),
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
def airflow(
    engine: SecondEngine, stage_image: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Faulted]:
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    home = tmp_path_factory.mktemp("restarted")
    with supervised(home, stage_image, [RESTARTED], DOCKER_HOST=engine.address) as made:
        yield made


def test_a_training_saves_its_work_and_goes_on_at_once_in_the_same_try(airflow: Faulted, engine: SecondEngine) -> None:
    run_id = airflow.night(RESTARTED)
    container = airflow.until_ticking(RESTARTED, run_id)
    engine.stop()
    threading.Event().wait(5)
    engine.start()

    def train() -> dict[str, object]:
        return airflow.api.tasks(RESTARTED, run_id)["train"]

    airflow.until(lambda: set(airflow.containers(RESTARTED, run_id)) - {container})
    airflow.until(lambda: train()["state"] == "success")
    assert train()["try_number"] == 1
    log = airflow.log(RESTARTED, run_id, "train")
    for said in (
        "training was told to stop and has saved its state",
        "the Docker engine does not answer",
        "it answers again after",
        "it goes on at once (1 of at most",
    ):
        assert said in log
    result = airflow.outcomes(RESTARTED, run_id)["train"].result
    assert result is not None
    resumed_from = documents.trained(result).resumed_from
    assert resumed_from is not None
    assert 0 < resumed_from < len(ticks(log))
    assert airflow.alerts() == []  # that it was preempted is told to nobody
