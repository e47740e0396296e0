"""The loop learns, repeats itself to the bit, resumes to the bit, and never saves a state that is not finite."""

from typing import Any

import numpy as np
import pytest
import torch

from ratchet.model.description import Architecture, Description, NumericColumn
from ratchet.model.networks import Network
from tasks.train.data import Rows
from tasks.train.losses import LOSSES
from tasks.train.settings import Recipe
from tasks.train.step_losses import NotFinite
from tasks.train.stopping import StopTraining
from tests.train.miniature import CLASSES, MemoryFolder, bits, loop, network, rows

OBJECTIVES = ("ranking", "binary", "regression", "multiclass")


@pytest.mark.parametrize("kind", ["linear", "mlp", "dcn"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_architecture_learns_every_objective(objective: str, kind: str) -> None:
    made = network(objective, kind)
    trained = loop(objective, net=made, epochs=4).run()
    assert trained.history[-1].loss < trained.history[0].loss
    held = rows(objective, seed=1)
    with torch.inference_mode():
        raw = made.eval().scores(held.numeric, held.places)
    if objective == "multiclass":
        assert raw.shape == (len(held), CLASSES)
        assert (raw.argmax(1) == held.label).double().mean() > 0.6
    else:
        assert torch.corrcoef(torch.stack([raw, held.label]))[0, 1] > (0.35 if objective != "regression" else 0.8)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_same_seed_gives_the_same_bits(objective: str) -> None:
    first, second = network(objective, dropout=0.1), network(objective, dropout=0.1)
    for made in (first, second):
        torch.manual_seed(3)
        loop(objective, net=made).run()
    assert bits(first) == bits(second)
    other = network(objective, dropout=0.1)
    loop(objective, net=other, seed=1).run()
    assert bits(other) != bits(first)


@pytest.mark.parametrize("steps", [1, 7, 16, 17, 30, 47])
@pytest.mark.parametrize("objective", ["ranking", "binary"])
def test_a_resumed_training_ends_with_the_bits_of_an_uninterrupted_one(objective: str, steps: int) -> None:
    torch.manual_seed(0)
    whole = network(objective, dropout=0.2)
    valid = rows(objective, 300, seed=5)
    uninterrupted = loop(objective, net=whole, valid=valid).run()
    folder = MemoryFolder()
    torch.manual_seed(0)
    begun = network(objective, dropout=0.2)
    with pytest.raises(StopTraining):
        loop(objective, net=begun, folder=folder, valid=valid, stop_after=steps).run()
    torch.manual_seed(99)  # another process has another state of the random generator
    resumed = network(objective, seed=99, dropout=0.2)
    trained = loop(objective, net=resumed, folder=folder, valid=valid).run()
    assert trained.resumed_from is not None
    assert bits(resumed) == bits(whole)
    assert [done.loss for done in trained.history] == [done.loss for done in uninterrupted.history]


def test_a_complete_training_is_not_trained_again() -> None:
    folder = MemoryFolder()
    first, second = network("binary"), network("binary", seed=9)
    loop("binary", net=first, folder=folder).run()
    trained = loop("binary", net=second, folder=folder).run()
    assert bits(first) == bits(second)
    assert (len(trained.history), trained.history[-1].step) == (3, 48)


def test_on_a_plateau_the_rate_falls_from_the_best_weights() -> None:
    """The metric is best at the third evaluation; two more are the patience."""
    values = iter([0.5, 0.4, 0.3, 0.35, 0.36])
    trained = loop(
        "binary", epochs=60, patience=2, valid=rows("binary", 300, seed=7), metric=lambda *_: next(values)
    ).run()
    assert [done.step for done in trained.history[:5]] == [64, 80, 96, 112, 128]  # 49 steps are the warm-up
    assert trained.best == 3
    assert [done.valid_metric for done in trained.history[5:]] == [None] * (len(trained.history) - 5)
    assert trained.history[-1].step == 128 + 48
    assert trained.recipe.level == 6
    assert trained.recipe.fall == pytest.approx(48 / 18)  # an epoch of all rows has 18 steps


def test_the_fall_trains_on_the_rows_for_validation_too() -> None:
    """They are all the rows that say what the label depends on."""
    silent = rows("binary", 1000)
    silent.label.copy_((torch.arange(1000) % 2).float())
    telling = rows("binary", 1000, seed=5)
    made = network("binary")
    loop("binary", net=made, train=silent, valid=telling, epochs=20).run()
    held = rows("binary", seed=1)
    with torch.inference_mode():
        raw = made.eval().scores(held.numeric, held.places)
    assert torch.corrcoef(torch.stack([raw, held.label]))[0, 1] > 0.3


def test_an_epoch_has_several_evaluations_where_it_has_the_steps_for_them() -> None:
    found = loop("binary", epochs=2, batch_size=16, evaluations=4).run()
    assert [done.step for done in found.history] == [32, 63, 94, 125, 157, 188, 219, 250]
    assert found.history[-1].epoch == 2
    few = loop("binary", epochs=2, batch_size=128, evaluations=4).run()
    assert [done.step for done in few.history] == [16, 32]


def test_the_number_of_steps_is_a_limit_too() -> None:
    assert loop("binary", epochs=10, steps=20).run().history[-1].step == 20


def test_without_validation_days_all_steps_are_taken() -> None:
    found = loop("binary").run()
    assert (found.history[-1].step, found.history[-1].epoch) == (48, 3)
    assert (found.recipe.level, found.recipe.fall) == (2, 1)


def test_a_training_that_repeats_another_on_its_rows_is_the_same_training() -> None:
    first, second = network("binary"), network("binary")
    torch.manual_seed(1)
    found = loop("binary", net=first).run()
    torch.manual_seed(1)
    loop("binary", net=second, recipe=found.recipe).run()
    assert bits(first) == bits(second)


def test_the_loss_of_an_epoch_is_the_mean_over_its_rows_whatever_the_sizes_of_its_steps() -> None:
    data = rows("binary", 2 * 128 + 3)
    still = network("binary", "linear", masked=0.0)
    trained = loop("binary", net=still, train=data, epochs=1, batch_size=128, learning_rate=1e-30).run()
    scores = still.scores(data.numeric, data.places).detach()
    assert trained.history[0].loss == pytest.approx(float(LOSSES["binary"](scores, data.label, None, None)), rel=1e-5)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_validation_metric_that_is_not_finite_never_wins_and_is_reported(bad: float) -> None:
    values = iter([bad, 0.5, 0.4, bad])
    logged: list[str] = []
    trained = loop("binary", epochs=5, valid=rows("binary", 100), metric=lambda *_: next(values), warnings=logged).run()
    assert trained.best == 3
    assert [done.valid_metric for done in trained.history[:4]] == [None, 0.5, 0.4, None]
    assert [line for line in logged if "validation metric of step 16" in line]


def test_validation_rows_that_have_no_metric_are_reported_once() -> None:
    """As those of one class: early stopping must not be off in silence."""
    logged: list[str] = []
    trained = loop("binary", valid=rows("binary", 300, seed=1), metric=lambda *_: None, warnings=logged).run()
    assert trained.history[-1].step == 2 * 16 + 18
    assert logged == [
        "the validation metric has no value on the 300 validation rows, as where all labels are the same: early"
        " stopping is off, and training takes all of its steps"
    ]


def test_validation_scores_that_are_not_finite_end_the_training() -> None:
    valid = rows("binary", 100)
    made = network("binary")
    made.preprocess.numbers = lambda numeric: torch.cat([numeric, torch.zeros_like(numeric)], dim=1)  # type: ignore[method-assign]
    valid.numeric[[3, 7]] = torch.nan
    with pytest.raises(
        NotFinite, match="the scores of 2 of 100 validation rows are not finite after step 16"
    ) as caught:
        loop("binary", net=made, valid=valid).run()
    assert caught.value.rows is not None
    assert caught.value.rows.tolist() == [2003, 2007]


def test_wild_rows_of_a_wide_table_do_not_drown_the_others() -> None:
    """A heavy factor that all columns have in common: without a limit on gradients the last loss is over 1,000."""
    draw = np.random.default_rng(0)
    count, columns = 6_400, 300
    numeric = draw.lognormal(0, 2, (count, 1)) * draw.normal(size=(count, columns))
    label = np.tanh(draw.normal(size=count) + np.sign(numeric[:, 0]))
    data = Rows(
        numeric=torch.from_numpy((numeric / numeric.std(0)).astype(np.float32)),
        places=torch.zeros(count, 0, dtype=torch.int64),
        label=torch.from_numpy(((label - label.mean()) / label.std()).astype(np.float32)),
        weight=None,
        sizes=None,
    )
    torch.manual_seed(0)
    wide = Network(
        Description(
            objective="regression",
            numeric=tuple(NumericColumn(name=f"n{place}", transform=None) for place in range(columns)),
            categorical=(),
            derived={},
            architecture=Architecture(kind="dcn", hidden=(256, 128), cross_layers=2, dropout=0.0),
        )
    )
    trained = loop("regression", net=wide, train=data, epochs=4, batch_size=256, learning_rate=1e-2).run()
    assert trained.history[-1].loss < 200


def test_the_error_of_a_loss_that_is_not_finite_names_the_rows_of_its_step() -> None:
    poisoned = rows("binary")
    poisoned.label[1000] = torch.inf
    with pytest.raises(NotFinite, match=r"the loss is (nan|inf) at step \d+$") as caught:
        loop("binary", train=poisoned).run()
    assert caught.value.rows is not None
    assert 1000 in caught.value.rows
    assert 64 < len(caught.value.rows) <= 192


def test_a_loss_that_is_not_finite_ends_the_training_before_it_is_saved() -> None:
    poisoned = rows("binary")
    poisoned.numeric[1000] = torch.inf
    folder = MemoryFolder()
    made = network("binary")
    made.preprocess.forward = None  # type: ignore[assignment]  # the loop does not call it
    made.preprocess.numbers = lambda numeric: torch.cat([numeric, torch.zeros_like(numeric)], dim=1)  # type: ignore[method-assign]
    with pytest.raises(NotFinite, match=r"the loss is (nan|inf) at step \d+$"):
        loop("binary", net=made, train=poisoned, folder=folder).run()
    assert not folder.files


def test_a_training_that_is_repeated_on_other_rows_rises_as_the_measured_one_did() -> None:
    def rate_after_ten(**changes: Any) -> float:
        one = loop("binary", steps=2000, epochs=40, stop_after=10, **changes)
        with pytest.raises(StopTraining):
            one.run()
        return float(one._optimizer.parts[0].param_groups[0]["lr"])

    assert rate_after_ten(recipe=Recipe(level=2.0, fall=1.0)) == rate_after_ten() < 1e-2
