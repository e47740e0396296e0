"""A step in micro-batches is the step of the whole batch, to rounding."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tasks.train.data import Rows
from tasks.train.loop import TrainResult
from tasks.train.stopping import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows

OBJECTIVES = ("ranking", "binary", "regression", "multiclass")


def uneven(objective: str) -> Rows:
    """Rows of very different weights; some groups of a ranking have no click."""
    made = rows(objective)
    weight = torch.from_numpy(np.random.default_rng(3).exponential(size=len(made)).astype(np.float32))
    weight[100:300] = 0
    return replace(made, weight=weight)


@pytest.mark.parametrize("accumulation", [2, 5, 64])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradients_and_loss_of_micro_batches_are_those_of_the_whole_batch(objective: str, accumulation: int) -> None:
    def step(**changes: Any) -> tuple[torch.Tensor, list[torch.Tensor]]:
        made = network(objective, masked=0.0)
        done = loop(objective, net=made, batch_size=2000, **changes)._computation.add_gradients(uneven(objective))
        return done.loss, [parameter.grad for parameter in made.parameters() if parameter.grad is not None]

    whole, parts = step(), step(accumulation=accumulation)
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_whole_training_in_micro_batches_is_the_same_training(objective: str) -> None:
    def train(**changes: Any) -> TrainResult:
        valid = rows(objective, 300, seed=5, weighted=True)
        made = network(objective, masked=0.0)  # each micro-batch draws random numbers of its own
        return loop(objective, net=made, train=uneven(objective), valid=valid, **changes).run()

    whole, parts = train(), train(accumulation=4)
    for one, other in zip(whole.history, parts.history, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-3)
        assert other.valid_loss == pytest.approx(one.valid_loss, rel=1e-2)
        if objective != "ranking":  # whose scores have no level, only an order
            assert other.valid_metric == pytest.approx(one.valid_metric, rel=1e-2)


def test_micro_batches_hold_a_part_of_the_batch_in_training_and_in_validation() -> None:
    made, seen = network("binary"), []
    made.embedding.register_forward_hook(lambda _module, given, _out: seen.append((made.training, len(given[0]))))
    given = {"train": rows("binary", 2048), "valid": rows("binary", 1000)}
    loop("binary", net=made, **given, batch_size=512, accumulation=8, epochs=2).run()  # type: ignore[arg-type]  # rows
    in_training = [count for training, count in seen if training]
    assert in_training[:32] == [64] * 32
    assert max(in_training) <= 80  # a batch ends with the chunk that fills it
    assert [count for training, count in seen if not training] == ([64] * 15 + [40]) * 2


def test_validation_in_chunks_gives_the_scores_of_all_rows_at_once() -> None:
    made, valid = network("binary", "dcn"), rows("binary", 1000)
    made.eval()
    with torch.inference_mode():
        chunked = loop("binary", net=made, batch_size=128)._computation.scores(valid)
        whole = made.scores(valid.numeric, valid.places)
    torch.testing.assert_close(chunked, whole, rtol=1e-6, atol=1e-6)
    assert torch.equal(chunked.argsort(), whole.argsort())


@pytest.mark.parametrize("steps", [7, 17])
def test_a_training_in_micro_batches_resumes_to_the_same_bits(steps: int) -> None:
    torch.manual_seed(0)
    whole = network("ranking", dropout=0.2)
    loop("ranking", net=whole, accumulation=3).run()
    folder = MemoryFolder()
    torch.manual_seed(0)
    with pytest.raises(StopTraining):
        loop("ranking", net=network("ranking", dropout=0.2), folder=folder, stop_after=steps, accumulation=3).run()
    resumed = network("ranking", seed=9, dropout=0.2)
    loop("ranking", net=resumed, folder=folder, accumulation=3).run()
    assert bits(resumed) == bits(whole)


def test_progress_reports_the_position_and_the_time_left() -> None:
    logged: list[tuple[int, int, dict[str, float]]] = []
    loop("binary", progress=lambda _, done, total, fields: logged.append((done, total, fields)), epochs=2).run()
    assert [(done, total) for done, total, _ in logged] == [(16, 32), (32, 32)]
    first, last = logged[0][2], logged[-1][2]
    assert {"epoch", "step", "steps", "loss", "samples_per_sec", "eta"} <= set(first)
    assert (first["epoch"], first["step"], first["steps"]) == (1, 16, 32)
    assert first["eta"] > 0
    assert last["eta"] == 0
