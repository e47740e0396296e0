"""The state holds everything that the next step depends on."""

from math import inf, nan

import pytest
import torch

from tasks.train.optimizer import Optimizers
from tasks.train.schedule import Fall
from tasks.train.state import EvaluationResult, TrainState
from tests.train.miniature import bits, network

FALL = Fall(begin=48, steps=10, level=48)


def state(*, seed: int = 0) -> TrainState:
    net = network("binary", seed=seed, dropout=0.2)
    return TrainState(network=net, optimizer=Optimizers(net, learning_rate=0.1, weight_decay=0.1), fall=FALL)


def result(step: int, metric: float | None) -> EvaluationResult:
    return EvaluationResult(
        step=step, epoch=step / 16, loss=1.0, valid_loss=1.0, valid_metric=metric, seconds=1.0, samples_per_sec=1.0
    )


def test_load_state_dict_restores_every_value_of_state_dict() -> None:
    first, second = state(), state(seed=9)
    loss = first.network.scores(torch.randn(8, 2), torch.ones(8, 1, dtype=torch.int64)).sum()
    loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
    first.optimizer.step()
    first.finish_evaluation(result(16, 0.5), lower_is_better=True)
    first.step, first.loss, first.mass, first.rows, first.seconds = 19, 0.1, 0.7, 300, 2.5
    first.fall = Fall(begin=20, steps=7, level=16)
    first.trace.extend((0.5, 1.5))
    saved = first.state_dict()
    torch.manual_seed(99)
    second.load_state_dict(saved)
    restored = second.state_dict()
    assert list(restored) == list(saved)
    for name, value in saved.items():
        assert torch.equal(restored[name], value) if isinstance(value, torch.Tensor) else restored[name] == value, name


@pytest.mark.parametrize(
    ("metrics", "lower_is_better", "best", "since"),
    [
        ((0.5, 0.4, 0.6), True, 2, 1),
        ((0.5, 0.4, 0.6), False, 3, 0),
        ((0.5, 0.5, 0.5), True, 1, 2),
        ((None, 0.5, None), True, 2, 1),
        ((None, None, None), True, 3, 0),
        ((nan, 0.5, 0.6), True, 2, 1),
        ((0.5, nan, -inf), True, 1, 2),
        ((nan, nan, nan), True, 3, 0),
        ((0.5, 0.4, 0.4, 0.1), True, 2, 2),  # the fourth is in the fall, and does not count
    ],
)
def test_the_best_evaluation_is_the_first_with_the_best_metric(
    metrics: tuple[float | None, ...], *, lower_is_better: bool, best: int, since: int
) -> None:
    made = state()
    weights = []
    for number, metric in enumerate(metrics, 1):
        with torch.no_grad():
            next(made.network.parameters()).fill_(number)
        weights.append(bits(made.network))
        made.finish_evaluation(result(16 * number, metric), lower_is_better=lower_is_better)
    assert (made.best, made.evaluations_since_best) == (best, since)
    made.begin_fall(FALL)
    assert bits(made.network) == weights[best - 1]
    assert not made.best_weights
