"""A stage and the task that shares its days are both left to the triggerer: neither needs a worker, nothing is lost."""

import pytest

from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from tests.airflow.installation import ENDED
from tests.faults.supervised import DEFER_S, SHARED, FaultInstallation

pytestmark = [pytest.mark.airflow, pytest.mark.docker, pytest.mark.heavy, pytest.mark.xdist_group("faulted")]
WHOLE, FAILED = SHARED
SHARE = "features_share"


@pytest.fixture(scope="module")
def runs(faulted: FaultInstallation) -> dict[str, str]:
    """A run of each pipeline, at the same time."""
    return {pipeline: faulted.night(pipeline) for pipeline in SHARED}


def state(here: FaultInstallation, pipeline: str, run_id: str, task: str) -> str:
    return str(here.api.tasks(pipeline, run_id).get(task, {}).get("state"))


def until_deferred(here: FaultInstallation, pipeline: str, run_id: str, task: str) -> None:
    def deferred() -> bool:
        found = state(here, pipeline, run_id, task)
        assert found not in {*ENDED, "skipped"}, f"{task} is {found}"
        return found == "deferred"

    here.until(deferred, seconds=300 + DEFER_S)


def containers(here: FaultInstallation, pipeline: str, run_id: str) -> list[str]:
    plan = here.plan(pipeline, run_id)
    return DockerRunner().find({Label.RUN: plan.run_id, Label.STAGE: "features"})


def test_a_share_goes_on_after_the_triggerer_has_followed_its_container(
    faulted: FaultInstallation, runs: dict[str, str]
) -> None:
    run_id = runs[WHOLE]
    until_deferred(faulted, WHOLE, run_id, SHARE)
    assert len(containers(faulted, WHOLE, run_id)) == 2
    faulted.published_once(WHOLE, run_id)
    task = faulted.api.tasks(WHOLE, run_id)[SHARE]
    assert (task["state"], task["try_number"]) == ("success", 1)
    log = faulted.log(WHOLE, run_id, SHARE, share=0)
    assert "it runs for long: the triggerer follows its container from here on" in log
    assert "going on after the triggerer: it has ended" in log
    assert log.count("encoded") == 2, "half of the four days"
    assert containers(faulted, WHOLE, run_id) == []


def test_a_share_that_was_left_ends_with_its_stage_although_that_leaves_no_outcome(
    faulted: FaultInstallation, runs: dict[str, str]
) -> None:
    run_id = runs[FAILED]
    for task in ("features", SHARE):
        until_deferred(faulted, FAILED, run_id, task)
    path = f"/dags/{FAILED}/dagRuns/{run_id.replace('+', '%2B')}"
    faulted.api.call("PATCH", f"{path}/taskInstances/features", {"new_state": "failed"})
    faulted.until(lambda: containers(faulted, FAILED, run_id) == [], seconds=180)
    faulted.until(lambda: state(faulted, FAILED, run_id, SHARE) == "skipped", seconds=180)
    assert faulted.wait(FAILED, run_id)["run"] == "failed"
    assert "features" not in faulted.outcomes(FAILED, run_id)
