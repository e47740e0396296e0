"""One Airflow for all tests here, with a small search-ranking pipeline, its data, and a webhook for its alerts."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.airflow.installation import EXPECTATIONS, JUST_NOW, NIGHTLY, ROOT, YESTERDAY, Installation
from tests.plugins.webhook import Webhook
from tests.real.flights import FLIGHTS

PIPELINE = "search-ranking"
ROWS = 3000
_DAYS = 12
_SMALLER = {
    NIGHTLY: JUST_NOW,
    "window_days: 30": "window_days: 4",
    "epochs: 3": "epochs: 1",
    "hidden: [256, 128]": "hidden: [32]",
    EXPECTATIONS: "",
}


@pytest.fixture(scope="session")
def webhook() -> Iterator[Webhook]:
    """Where alerts to `mlops` go."""
    with Webhook().listening() as listening:
        yield listening


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory, stage_image: str, webhook: Webhook) -> Iterator[Installation]:
    """A running Airflow that knows the pipeline, still switched off."""
    from tasks.samples.clicks import write  # noqa: PLC0415 - only where an Airflow is really started

    if str(ROOT / "plugins") not in sys.path:
        sys.path.append(str(ROOT / "plugins"))
    made = Installation(
        tmp_path_factory.mktemp("airflow"),
        {
            "RATCHET_RUNNER": "docker",
            "RATCHET_STAGE_IMAGE": stage_image,
            "RATCHET_ALERTS_MLOPS": webhook.url,
            "RATCHET_FLIGHTS": str(FLIGHTS),
        },
    )
    for _ in write(made.services.data, days=_DAYS, rows_per_day=ROWS, end=YESTERDAY, seed=0):
        pass
    text = (ROOT / "dags" / "pipelines" / PIPELINE / "pipeline.yaml").read_text(encoding="utf-8")
    for usual, smaller in _SMALLER.items():
        assert usual in text
        text = text.replace(usual, smaller)
    folder = made.pipelines / PIPELINE
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(text, encoding="utf-8")
    try:
        made.start()
        made.api.wait_for_dag(PIPELINE)
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def night(airflow: Installation) -> tuple[str, dict[str, str]]:
    """The newest scheduled run, which starts as soon as the DAG is switched on: its id, and how its tasks ended."""
    airflow.unpause(PIPELINE)
    run_id = airflow.until(lambda: next((run["dag_run_id"] for run in airflow.api.runs(PIPELINE)), None))
    return run_id, airflow.wait(PIPELINE, run_id)


def day(back: int) -> str:
    """A day before the newest one."""
    return (YESTERDAY - timedelta(days=back)).isoformat()


def pipeline_file(airflow: Installation, name: str) -> Path:
    """The file of a pipeline under test."""
    return airflow.pipelines / name / "pipeline.yaml"


def messages(webhook: Webhook, *words: str) -> list[dict[str, str]]:
    """What was delivered with all these words in its title."""
    return [message for message in list(webhook.received) if all(word in message["title"] for word in words)]


def look_again(airflow: Installation) -> None:
    """One more look of the watch, which is to find nothing that was not told."""
    with airflow._environment():
        environment = {**airflow.services.environment(), "_AIRFLOW_PROCESS_CONTEXT": "server"}
    command = [sys.executable, "-c", "from ratchet_airflow.alerts.watch import look; look()"]
    subprocess.run(command, env=environment, timeout=120, check=True)
