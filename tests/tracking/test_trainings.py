"""Trainings in a real MLflow server: those of runs that are gone are deleted, and no others."""

import pytest

from ratchet.collection.beside import collect_trainings
from ratchet.tracking.live_run import LiveRun, Point
from ratchet.tracking.trainings import Trainings

pytestmark = pytest.mark.server
LATER_MS = 10**15


def test_trainings_of_runs_that_are_gone_are_deleted(mlflow_server: str) -> None:
    for run in ("kept", "gone", "gone too"):
        LiveRun(mlflow_server, pipeline="trainings", training=f"{run} train").write([Point("loss", 1.0, 1, 1)])
    pipelines, begun = ("trainings", "another"), [one.begun_ms for one in Trainings(mlflow_server).of("trainings")]
    young = collect_trainings(mlflow_server, pipelines, {"kept"}, min(begun) - 1, apply=True)
    assert (young.goes, [one.objects for one in young.stays.values()]) == ({}, [3])
    would = collect_trainings(mlflow_server, pipelines, {"kept"}, LATER_MS, apply=False)
    assert len(list(Trainings(mlflow_server).of("trainings"))) == 3
    did = collect_trainings(mlflow_server, pipelines, {"kept"}, LATER_MS, apply=True)
    assert (did.goes, did.stays) == (would.goes, would.stays)
    assert [one.objects for one in did.goes.values()] == [2]
    assert [one.run_id for one in Trainings(mlflow_server).of("trainings")] == ["kept"]


def test_a_server_that_does_not_answer_is_named() -> None:
    found = collect_trainings("http://127.0.0.1:1", ["trainings"], set(), LATER_MS, apply=True)
    assert "MLflow at http://127.0.0.1:1 does not answer" in found.unchecked
