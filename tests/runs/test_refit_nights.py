"""Nights that ship refits: the first is killed in the middle of its refit, and the next compares with the refit."""

import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.summaries import TrainedModel
from ratchet.runs.history import runs_of
from ratchet.runs.outcomes import outcomes
from ratchet.samples import clicks
from ratchet.store.base import Store
from ratchet.store.ledger import records
from ratchet.store.opening import open_store
from tests.faults.test_15_run_killed import RUN
from tests.runs.nights import DAY, ROOT, SMALL, ratchet
from tests.saved_checkpoints import saved_checkpoints
from tests.waiting import until

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("refits")]
PIPELINE = "search-ranking"
NEXT = DAY + timedelta(days=1)
MODEL = """
import time
from torch import nn

class Slow(nn.Sequential):
    def __init__(self, inputs):
        super().__init__(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        if self.training:
            time.sleep(0.03)
        return super().forward(x)
"""
"""Slow to train, so that there is a middle of a refit on any machine."""


@dataclass(frozen=True, kw_only=True)
class Nights:
    """A pipeline with a refit, and its store. said: what its runs printed, in order."""

    folder: Path
    store: Store
    said: list[Any]

    def words(self, *more: str) -> list[str]:
        given = ("--store", self.store.uri, "--runner", "process", "--json", *SMALL)
        return ["run", str(self.folder / PIPELINE), *given, *more]

    def environment(self) -> dict[str, str]:
        return {"RATCHET_DATA": str(self.folder / "data")}

    def night(self, *more: str) -> Any:
        ended = ratchet(*self.words(*more), environment=self.environment())
        assert ended.code == 0, ended.err
        self.said.append(ended.json)
        return ended.json

    def model(self, run_id: str, stage: str) -> TrainedModel:
        result = outcomes(self.store, PIPELINE, run_id)[stage].result  # type: ignore[index] # a stage by any name
        assert result is not None
        return summaries.trained(result)


def states(night: Any) -> dict[str, str]:
    """How each stage ended."""
    return {stage["name"]: "cached" if stage["cached"] else stage["state"] for stage in night["stages"]}


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    """A night that was killed in its refit, the same again twice, and the next night."""
    folder = tmp_path_factory.mktemp("refits")
    for _ in clicks.write(folder / "data", days=22, rows_per_day=2000, end=NEXT, seed=0):
        pass
    made = folder / PIPELINE
    made.mkdir()
    text = (ROOT / "dags" / "pipelines" / PIPELINE / "pipeline.yaml").read_text(encoding="utf-8")
    for usual, changed in (
        ("model: {kind: dcn}", "model: {kind: model.py:Slow}\n  refit: true"),
        ("item_id:  {role: categorical", "item_id:  {role: ignore"),
    ):
        assert usual in text
        text = text.replace(usual, changed)
    (made / "pipeline.yaml").write_text(text, encoding="utf-8")
    (made / "model.py").write_text(MODEL, encoding="utf-8")
    found = Nights(folder=folder, store=open_store((folder / "store").as_uri()), said=[])
    _kill_in_the_refit(found)
    for day in (DAY, DAY, NEXT):
        found.night("--date", f"{day}")
    return found


def _kill_in_the_refit(nights: Nights) -> None:
    """Kill the run, and with it its stage, once the refit has saved its first epoch."""
    begun = paths.checkpoints(PIPELINE, "refit")
    command = [sys.executable, "-c", RUN, *nights.words("--date", f"{DAY}")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **nights.environment()}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as first:
        until(lambda: first.poll() is not None or saved_checkpoints(nights.store, begun), seconds=200)
        assert first.poll() is None, first.communicate()
        first.kill()


def test_a_refit_that_was_killed_goes_on_from_its_checkpoint_and_what_was_measured_is_not_trained_again(
    nights: Nights,
) -> None:
    killed, ended, _ = runs_of(nights.store, PIPELINE, DAY)
    assert "refit" not in outcomes(nights.store, PIPELINE, killed)
    assert states(nights.said[0]) == {
        **dict.fromkeys(("ingest", "validate", "features", "train", "evaluate"), "cached"),
        **dict.fromkeys(("refit", "register", "report"), "done"),
    }
    resumed = nights.model(ended, "refit")
    assert resumed.resumed_from is not None
    assert resumed.resumed_from > 0
    measured = nights.model(ended, "train")
    assert (resumed.level, resumed.fall) == pytest.approx((measured.level, measured.fall), abs=0.02)


def test_what_is_in_production_is_the_refit_of_the_model_that_was_measured(nights: Nights) -> None:
    _, ended, _ = runs_of(nights.store, PIPELINE, DAY)
    measured, shipped = nights.model(ended, "train"), nights.model(ended, "refit")
    record = records(nights.store, PIPELINE)[0]
    assert (record.model_digest, record.refit_of) == (shipped.digest, measured.digest)
    assert shipped.digest != measured.digest
    assert shipped.refit is not None
    assert (shipped.refit.of, shipped.refit.refused) == (measured.digest, "")
    assert shipped.split.train[-1] == DAY > measured.split.train[-1]
    assert nights.said[0]["model"] == {"name": PIPELINE, "version": "1"}
    page = Path(nights.said[0]["report"]).read_text(encoding="utf-8")
    assert "The registered model is a refit of the one that was measured, on days up to 2026-03-20" in page
    assert shipped.digest in page


def test_the_same_night_again_is_found_in_the_cache(nights: Nights) -> None:
    assert set(states(nights.said[1]).values()) == {"cached"}
    assert nights.said[1]["verdict"] == nights.said[0]["verdict"] == "promote"
    assert len(records(nights.store, PIPELINE)) == 1


def test_the_next_night_compares_with_the_refit_on_a_day_that_it_has_not_seen(nights: Nights) -> None:
    night = nights.said[2]
    (run_id,) = runs_of(nights.store, PIPELINE, NEXT)
    evaluated = outcomes(nights.store, PIPELINE, run_id)["evaluate"].result
    assert evaluated is not None
    judged = summaries.judgement(evaluated)
    assert judged.reason not in {"baseline-saw-holdout", "baseline-missing", "baseline-unreadable"}
    assert judged.baseline is not None
    assert judged.baseline.digest == records(nights.store, PIPELINE)[0].model_digest
    assert judged.holdout == (NEXT,)
    assert night["metrics"]["baseline"]["ndcg@10"] > 0
    assert states(night)["refit"] == ("done" if judged.verdict == "promote" else "skipped")


def test_a_run_that_switches_the_refit_off_has_its_stages_of_before_and_trains_nothing_again(nights: Nights) -> None:
    night = nights.night("--date", f"{DAY}", "--set", "train.refit=false", "--promote", "never")
    assert "refit" not in states(night)
    assert states(night)["train"] == "cached"
