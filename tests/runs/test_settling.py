"""A run that its orchestrator gave up is shown as failed, also where a stage waited to be tried again."""

from pathlib import Path

from ratchet.contracts import paths
from ratchet.contracts.request import Outcome
from ratchet.runs.run_index import note_plan, read_index
from ratchet.runs.settling import settle
from ratchet.store.opening import open_store
from tests.runs.recorded import keep_plan
from tests.runs.test_requests import DAY, plan


def test_a_stage_that_nobody_tries_again_has_failed(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    made = plan(run_id="run-1", data_date=DAY, store=store.uri)
    keep_plan(store, made)
    note_plan(store, made)
    assert not settle(store, made)  # nothing is on record
    waits = Outcome(stage="train", state="failed", because="no engine answers", again=True)
    store.create(paths.outcome(made.spec.name, "run-1", "train"), waits.model_dump_json(by_alias=True).encode())
    (before,) = read_index(store, made.spec.name).runs
    assert [settle(store, made), settle(store, made)] == [True, False]
    (after,) = read_index(store, made.spec.name).runs
    assert [(one.standing, one.ended) for one in (before, after)] == [("unfinished", False), ("failed", True)]
    assert after.cause == "train: no engine answers"
