"""Trainings in a real MLflow server: those of runs that are gone are deleted, and no others."""

import pytest

from ratchet.collection.beside import collect_trainings
from ratchet.runs.jobs import store_label
from ratchet.tracking.live_run import LiveRun, Point
from ratchet.tracking.trainings import Trainings

pytestmark = pytest.mark.server
LATER_MS = 10**15
HERE = "file:///here"


def test_trainings_of_runs_that_are_gone_are_deleted(mlflow_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ratchet.tracking.trainings._PAGE", 1)  # the next page is counted after the deletions
    for store, run in ((HERE, "kept"), (HERE, "gone"), (HERE, "gone too"), ("file:///there", "gone")):
        label = store_label(store)
        made = LiveRun(mlflow_server, pipeline="trainings", training=f"{run} train", store=label)
        made.write([Point("loss", 1.0, 1, 1)])
    ours, theirs = (Trainings(mlflow_server, store=store_label(one)) for one in (HERE, "file:///there"))
    pipelines, begun = ("trainings", "another"), [one.begun_ms for one in ours.of("trainings")]
    young = collect_trainings(mlflow_server, HERE, pipelines, {"kept"}, min(begun) - 1, apply=True)
    assert (young.goes, [one.objects for one in young.stays.values()]) == ({}, [3])
    would = collect_trainings(mlflow_server, HERE, pipelines, {"kept"}, LATER_MS, apply=False)
    assert len(list(ours.of("trainings"))) == 3
    did = collect_trainings(mlflow_server, HERE, pipelines, {"kept"}, LATER_MS, apply=True)
    assert (did.goes, did.stays) == (would.goes, would.stays)
    assert [one.objects for one in did.goes.values()] == [2]
    assert [one.run_id for one in ours.of("trainings")] == ["kept"]
    assert [one.run_id for one in theirs.of("trainings")] == ["gone"]


def test_a_server_that_does_not_answer_is_named() -> None:
    found = collect_trainings("http://127.0.0.1:1", HERE, ["trainings"], set(), LATER_MS, apply=True)
    assert "MLflow at http://127.0.0.1:1 does not answer" in found.unchecked
