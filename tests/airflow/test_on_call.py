"""What docs/on-call.md says to type where Airflow runs is typed there."""

import shlex

import pytest

from tests.airflow.installation import Installation
from tests.airflow.shared import PIPELINE
from tests.docs.blocks import blocks

pytestmark = [pytest.mark.airflow, pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("airflow")]


def typed(day: str) -> list[str]:
    """Each command once, for the pipeline of these tests."""
    shown = [line for one in blocks("on-call.md") if one.file == "airflow" for line in one.text.splitlines()]
    named = [line.replace("late-orders", PIPELINE).replace("2026-11-21", day) for line in shown]
    return sorted({line.removeprefix("airflow ") for line in named})


def test_each_command_of_the_page_succeeds(airflow: Installation, night: tuple[str, dict[str, str]]) -> None:
    day = f"{airflow.plan(PIPELINE, night[0]).data_date}"
    commands = typed(day)
    assert [" ".join(command.split()[:2]) for command in commands] == [
        "dags clear", "dags list-import-errors", "dags list-runs", "dags trigger", "dags unpause",
        "jobs check", "jobs check", "pools list",
    ]  # fmt: skip
    before = {run["dag_run_id"] for run in airflow.api.runs(PIPELINE)}
    printed = {command: airflow.command(*shlex.split(command)) for command in commands}
    (again,) = (run for run in airflow.api.runs(PIPELINE) if run["dag_run_id"] not in before)
    assert again["conf"] == {"date": day}
    assert "ratchet_gpu" in next(text for command, text in printed.items() if command.startswith("pools"))
    states = airflow.wait(PIPELINE, again["dag_run_id"])
    assert states["run"] == "success"  # the same date again: everything is found in the cache
