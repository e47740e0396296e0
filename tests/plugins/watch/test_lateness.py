"""Runs that are late or stuck."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.contracts.loading import load
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.stages import StageSettings
from ratchet_airflow.watch.lateness import late_by, may_be_due, stuck_since
from tests.plugins.watch.airflow_rows import QUEUED, run, task

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def spec() -> PipelineSpec:
    """finish_by is 4 h; train may take 4 h, every other stage 1 h."""
    return load(ROOT / "dags" / "pipelines" / "search-ranking")


def test_a_run_is_late_when_finish_by_has_passed_whether_it_goes_on_or_ended_since(spec: PipelineSpec) -> None:
    hours = timedelta(hours=1)
    assert late_by(run(), spec, QUEUED + 3.9 * hours) is None
    assert late_by(run(), spec, QUEUED + 5 * hours) == hours
    assert late_by(run(state="queued"), spec, QUEUED + 5 * hours) == hours
    assert late_by(run(state="success", ended=4.5 * hours), spec, QUEUED + 5 * hours) == 0.5 * hours
    assert late_by(run(state="failed", ended=0.5 * hours), spec, QUEUED + 5 * hours) is None
    assert late_by(replace(run(), backfill=7), spec, QUEUED + 5 * hours) is None


def test_a_run_is_stuck_when_no_task_changed_for_far_longer_than_its_tasks_may_take(spec: PipelineSpec) -> None:
    done, waiting = task("plan", "success", timedelta(minutes=1)), task("train", None, None)
    ingest = task("ingest", "running", timedelta(minutes=2))
    hours = timedelta(hours=1)
    assert stuck_since(run(done, ingest, waiting), spec, QUEUED + 2.4 * hours) is None
    assert stuck_since(run(done, ingest, waiting), spec, QUEUED + 3 * hours) == QUEUED + timedelta(minutes=2)
    training = task("train", "running", timedelta(minutes=3))
    assert stuck_since(run(done, training), spec, QUEUED + 8 * hours) is None
    assert stuck_since(run(done, training), spec, QUEUED + 9 * hours) is not None


@pytest.mark.parametrize("state", ["awaiting_input", "success"])
def test_once_a_person_was_asked_a_run_is_not_late(spec: PipelineSpec, state: str) -> None:
    later = QUEUED + timedelta(hours=5)
    assert late_by(run(task("evaluate", "success"), task("approve", state)), spec, later) is None
    assert late_by(run(task("evaluate", "running"), task("approve", None)), spec, later) == timedelta(hours=1)


def test_a_stage_that_is_left_to_the_triggerer_waits_for_nobody(spec: PipelineSpec) -> None:
    left, later = run(task("train", "deferred")), QUEUED + timedelta(hours=10)
    assert late_by(left, spec, later) == timedelta(hours=6)
    assert stuck_since(left, spec, later) == QUEUED
    assert stuck_since(run(task("approve", "deferred")), spec, later) is None


def test_a_task_that_waits_in_a_queue_for_ever_is_stuck_and_a_person_never_is(spec: PipelineSpec) -> None:
    later = QUEUED + timedelta(hours=9)
    assert stuck_since(run(task("features", "scheduled", None)), spec, later) == QUEUED
    assert stuck_since(run(task("approve", "awaiting_input")), spec, later) is None
    assert stuck_since(run(task("plan", "success")), spec, later) is None


def test_a_plan_that_is_stuck_is_seen_however_long_the_stages_may_take(spec: PipelineSpec) -> None:
    slow = spec.model_copy(
        update={"stages": {name: StageSettings.model_validate({"timeout": "8h"}) for name in spec.stages}}
    )
    one, now = run(task("plan", "queued")), QUEUED + timedelta(hours=3.5)
    assert stuck_since(one, slow, now) == QUEUED
    assert may_be_due(replace(one, tasks=()), slow, now)
