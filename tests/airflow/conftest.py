"""What the tests of the shared Airflow say of its pipeline and its alerts."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.airflow.installation import YESTERDAY, Installation
from tests.airflow.shared import PIPELINE
from tests.plugins.webhook import Webhook


@pytest.fixture(scope="session")
def night(airflow: Installation) -> tuple[str, dict[str, str]]:
    """The newest scheduled run, which starts as soon as the DAG is switched on: its id, and how its tasks ended."""
    run_id = airflow.night(PIPELINE)
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
