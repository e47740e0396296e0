"""A refit: the measured recipe on more days, resumed to the same bytes, and refused where it went wrong."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratchet.contracts import summaries
from ratchet.contracts.errors import Preempted, RatchetError
from ratchet.contracts.refit import Refit
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.summaries import FeatureSet, TrainedModel
from ratchet.model.files import lay_out
from ratchet.model.fitted_state import FittedState
from ratchet.model.scoring import load
from ratchet.runtime.context import Finished
from ratchet.store.artifacts import read_bytes
from tasks.train import refit
from tests.features.encoding import validated
from tests.train.test_stage import (
    DAYS,
    METRIC,
    ROWS,
    Trainings,
    day_rows,
    prepare,
    stopped_after,
    weights,
)

__all__ = ["stopped_after"]
MEASURED = "a" * 64


@dataclass
class Refits:
    """A night up to its measured model, and refits of it."""

    trainings: Trainings
    measured: PublishedResult

    @classmethod
    def prepare(cls, folder: Path, objective: str, **settings: Any) -> "Refits":
        trainings = prepare(folder, objective)
        model = {"kind": "mlp", "embedding_dim": 4, "hidden": [16], **settings.pop("model", {})}
        trainings.settings(refit=True, model=model, **settings)
        nights, inputs = trainings.nights, trainings.inputs
        inputs["features"] = nights.run("features", inputs={name: inputs[name] for name in ("ingest", "validate")})
        return cls(trainings, trainings.train())

    @property
    def model(self) -> TrainedModel:
        return summaries.trained(self.measured.result)

    @property
    def features(self) -> PublishedResult:
        return self.trainings.inputs["features"]

    def refit(self, run: str = "0", accumulation: int = 1, features: PublishedResult | None = None) -> PublishedResult:
        """`run` names the fingerprint: the same name is the same refit."""
        inputs: Any = {
            "ingest": self.trainings.inputs["ingest"],
            "features": features or self.features,
            "train": self.measured,
        }
        return self.trainings.nights.run("refit", inputs=inputs, parts={"run": run}, accumulation=accumulation)

    def with_features(self, summary: FeatureSet, refitted: bytes) -> PublishedResult:
        """The features with another document, and with other values that were fitted for the refit."""
        world, given = self.trainings.nights, self.features.result
        with world.open(world.request("features", parts={"other": "1"}, attempt="other")) as ctx:
            for name, artifact in given.outputs.items():
                if name != "refitted":
                    ctx.transaction.refer(name, artifact)
            ctx.transaction.add_bytes("refitted", refitted)
            return world.commit(ctx, Finished(content=given.content, summary=summary))


@pytest.mark.parametrize("objective", METRIC)
def test_a_refit_has_seen_every_day_and_says_whose_recipe_it_repeats(tmp_path: Path, objective: str) -> None:
    refits = Refits.prepare(tmp_path, objective)
    published = refits.refit()
    made = summaries.trained(published.result)
    assert (made.split.train, made.split.valid, made.split.holdout) == (tuple(DAYS), (), ())
    assert (made.rows, refits.model.rows) == (4 * ROWS, 2 * ROWS)
    assert made.refit is not None
    assert (made.refit.of, made.refit.metric, made.refit.refused) == (refits.model.digest, METRIC[objective], "")
    assert made.digest == published.result.content != refits.model.digest
    assert made.batch_size == refits.model.batch_size
    assert (made.level, made.fall) == (
        pytest.approx(refits.model.level, abs=0.05),
        pytest.approx(refits.model.fall, abs=0.05),
    )
    assert {name.partition(".")[0] for name in published.result.metrics} == {"refit"}
    fitted = FittedState.from_bytes(
        read_bytes(refits.trainings.nights.store, refits.features.result.outputs["refitted"])
    )
    laid = lay_out(refits.trainings.nights.store, published.result, tmp_path / "laid", tmp_path)
    network = load(laid)._network
    np.testing.assert_array_equal(network.preprocess.mean.numpy(), fitted.mean)


def test_a_refit_on_the_days_of_the_measured_training_is_the_measured_model(tmp_path: Path) -> None:
    """Nothing of the recipe differs: not the order of rows, the learning rates, the seed, nor the number of steps."""
    refits = Refits.prepare(tmp_path, "ranking", epochs=8, valid_days=0, learning_rate=0.05, model={"dropout": 0.2})
    found = summaries.features(refits.features.result)
    fitted = read_bytes(refits.trainings.nights.store, refits.features.result.outputs["fitted"])
    same = refits.with_features(found.model_copy(update={"refit": found.split.train}), fitted)
    made = summaries.trained(refits.refit(features=same).result)
    assert made.digest == refits.model.digest
    assert made.refit is not None
    assert made.refit.score == made.refit.measured_score
    assert made.refit.loss == made.refit.measured_loss == refits.model.evaluations[-1].loss


def test_a_refit_that_was_stopped_resumes_to_the_same_bytes(tmp_path: Path, stopped_after: Any) -> None:
    refits = Refits.prepare(tmp_path, "ranking", model={"dropout": 0.2})
    expected = refits.refit(run="whole")
    stopped_after(7)
    with pytest.raises(Preempted):
        refits.refit(run="cut")
    stopped_after(None)
    resumed = refits.refit(run="cut")
    assert summaries.trained(resumed.result).resumed_from == 8
    assert weights(refits.trainings, resumed) == weights(refits.trainings, expected)


def test_a_refit_in_micro_batches_is_the_same_up_to_rounding(tmp_path: Path) -> None:
    refits = Refits.prepare(tmp_path, "binary", model={"dropout": 0.0, "masked": 0.0})
    whole, parts = (summaries.trained(refits.refit(f"{many}", many).result) for many in (1, 4))
    assert (whole.accumulation, parts.accumulation) == (1, 4)
    assert parts.evaluations[-1].loss == pytest.approx(whole.evaluations[-1].loss, rel=1e-3)


def test_a_refit_that_learns_the_opposite_from_the_newest_days_is_refused_by_name(tmp_path: Path) -> None:
    """Of the days that it has more than the measured training, two say the opposite of all others."""
    refits = Refits.prepare(tmp_path, "binary")
    world, found = refits.trainings.nights, summaries.features(refits.features.result)
    for day in DAYS[1:3]:
        rows = day_rows(day, "binary")
        world.put(day, {**rows, "clicked": 1 - rows["clicked"]})
    ingest = world.run("ingest")
    poisoned = world.run("features", inputs={"ingest": ingest, "validate": validated(world, ingest)})
    days = {day.day: day for day in summaries.features(poisoned.result).days}
    mixed = found.model_copy(update={"days": (found.days[0], days[DAYS[1]], days[DAYS[2]], found.days[3])})
    mixed = mixed.model_copy(update={"refit": (DAYS[1], DAYS[2])})
    given = refits.with_features(mixed, read_bytes(world.store, poisoned.result.outputs["refitted"]))
    made = summaries.trained(refits.refit(features=given).result)
    assert made.refit is not None
    assert made.refit.refused.startswith("refit-diverged: auc of the refit is 0.")
    assert made.refit.score is not None
    assert made.refit.measured_score is not None
    assert made.refit.score < 0.5 < made.refit.measured_score


def test_a_refit_that_a_service_could_not_serve_is_refused_by_name(tmp_path: Path) -> None:
    refits = Refits.prepare(tmp_path, "binary")
    refits.trainings.nights.document["register"] = {"max_latency_ms": 1e-6}
    published = refits.refit()
    made = summaries.trained(published.result)
    assert made.refit is not None
    assert made.refit.refused.startswith("too-slow: a row takes ")
    assert published.result.metrics["refit.latency_ms"] > 0


def test_a_refit_whose_loss_is_no_number_fails_by_the_same_name(tmp_path: Path) -> None:
    refits = Refits.prepare(tmp_path, "regression")
    refits.trainings.settings(learning_rate=10.0, model={"kind": "dcn", "cross_layers": 16, "hidden": [16]})
    with pytest.raises(RatchetError, match=r"^refit-diverged: the (gradient|loss) is "):
        refits.refit()


def compared(**changes: Any) -> Refit:
    given = {"of": MEASURED, "loss": 0.5, "measured_loss": 0.5, "metric": "auc", "score": 0.8, "measured_score": 0.8}
    return Refit(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, ""),
        ({"loss": 0.7}, ""),
        ({"loss": 0.8}, "the training loss of the refit is 0.8, and that of the measured model 0.5"),
        ({"loss": -4.0, "measured_loss": -5.0}, ""),  # a likelihood
        ({"loss": -1.0, "measured_loss": -5.0}, "the training loss of the refit is -1"),
        ({"loss": 0.2, "measured_loss": 1e-6}, ""),  # from 0.9 to nearly nothing: twice nearly nothing is no accident
        ({"loss": 0.5, "measured_loss": 1e-6}, "the training loss"),
        ({"score": 0.785}, ""),
        ({"score": 0.78}, "auc of the refit is 0.78 on the held-out days"),
        ({"score": 1.0}, ""),
        ({"metric": "rmse", "score": 0.81}, ""),
        ({"metric": "rmse", "score": 0.82}, "rmse of the refit is 0.82"),
        ({"metric": "rmse", "score": 0.1}, ""),
        ({"score": None}, "auc has no value on the held-out days, so the refit cannot be checked"),
        ({"measured_score": None}, "auc has no value on the held-out days"),
    ],
)
def test_the_guard_refuses_what_is_worse_by_more_than_chance(changes: dict[str, Any], refused: str) -> None:
    found = refit.refusal(compared(**changes), first_loss=0.9, finite=True)
    assert found.startswith(f"refit-diverged: {refused}" if refused else "")
    assert bool(found) == bool(refused)


def test_the_guard_refuses_weights_that_are_no_numbers() -> None:
    assert (
        refit.refusal(compared(), first_loss=0.9, finite=False) == "refit-diverged: a weight of the refit is not finite"
    )
