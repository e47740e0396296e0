"""Newer days more often: how often, with as many steps as without, and the same again after a stop."""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ratchet.contracts import summaries
from tasks.train.curriculum import Sampling, by_age, draw
from tasks.train.data import Reader
from tasks.train.joining import join
from tasks.train.stopping import StopTraining
from tests.train.miniature import MemoryFolder, bits, loop, network, rows
from tests.train.test_stage import DAYS, prepare, weights

WEIGHTS = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=60).map(np.array)
SAMPLING = Sampling(ends=(500, 1000, 2000, 2200), weights=(0.25, 0.5, 0.9, 1.0))


@given(weights=WEIGHTS, seed=st.integers(0, 2**31 - 1), epoch=st.integers(1, 10**6))
def test_an_epoch_has_each_chunk_as_often_as_its_share_to_a_whole_number(
    weights: np.ndarray, seed: int, epoch: int
) -> None:
    found = draw(weights, len(weights), seed, epoch)
    assert len(found) == len(weights)
    expected = weights / weights.sum() * len(weights)
    assert (np.abs(np.bincount(found, minlength=len(weights)) - expected) < 1 + 1e-6).all()
    assert_array_equal(found, draw(weights, len(weights), seed, epoch))


@given(count=st.integers(1, 60), seed=st.integers(0, 2**31 - 1), epoch=st.integers(1, 10**6))
def test_without_weights_an_epoch_has_each_chunk_once_in_the_order_of_before(count: int, seed: int, epoch: int) -> None:
    assert_array_equal(draw(None, count, seed, epoch), np.random.default_rng((seed, epoch)).permutation(count))


def test_over_epochs_a_chunk_is_met_by_its_weight() -> None:
    weights = np.array([0.1, 0.2, 0.3, 0.4, 1.0])
    found = np.concatenate([draw(weights, 5, 0, epoch) for epoch in range(2000)])
    assert_allclose(np.bincount(found) / len(found), weights / weights.sum(), rtol=0.03)


def test_the_weight_of_a_day_halves_with_each_half_life() -> None:
    newest = date(2026, 11, 20)
    days = [(newest - timedelta(days=back), 10 * back + 5) for back in (28, 14, 7, 0)]
    found = by_age(days, 14.0)
    assert found.ends == (285, 430, 505, 510)
    assert_allclose(found.weights, (0.25, 0.5, 2**-0.5, 1.0))
    begin, end = np.array([0, 280, 290, 430, 505]), np.array([280, 290, 430, 505, 510])
    assert_allclose(found.of_chunks(np.arange(510), begin, end), (0.25, 0.375, 0.5, 2**-0.5, 1.0))


@pytest.mark.parametrize("objective", ["binary", "ranking"])
def test_a_reader_meets_new_rows_more_often_in_as_many_steps_of_as_many_rows(objective: str) -> None:
    days = [rows(objective, count, seed=count) for count in (500, 501, 1000)]
    sampling = Sampling(ends=(500, 1001, 2001), weights=(0.25, 0.5, 1.0))
    joined = join(days, np.arange(2001))
    reader = Reader(joined, batch_size=100, seed=0, chunk_rows=8, sampling=sampling)
    usual = Reader(joined, batch_size=100, seed=0, chunk_rows=8)
    assert reader.steps == usual.steps
    counts = np.zeros(2001)
    for epoch in range(1, 101):
        batches = reader.epoch(epoch)
        assert len(batches) == reader.steps
        for batch in batches:
            assert 60 < len(reader.read(batch)) < 140
            np.add.at(counts, reader.row_numbers(batch), 1)
    per_day = np.array([counts[:500].mean(), counts[500:1001].mean(), counts[1001:].mean()])
    assert_allclose(per_day / per_day[2], (0.25, 0.5, 1.0), rtol=0.1)


def test_groups_of_unlike_sizes_change_the_rows_of_an_epoch_and_neither_its_steps_nor_its_pieces() -> None:
    sizes = [np.full(60, 2), np.full(8, 40)]
    days = [replace(rows("ranking", int(one.sum())), sizes=torch.from_numpy(one)) for one in sizes]
    sampling = Sampling(ends=(120, 440), weights=(0.25, 1.0))
    reader = Reader(join(days, np.arange(440)), batch_size=64, seed=0, chunk_rows=8, sampling=sampling)
    usual = Reader(join(days, np.arange(440)), batch_size=64, seed=0, chunk_rows=8)
    pieces = sum(map(len, usual.epoch(1)))
    counted = set()
    for epoch in range(1, 20):
        batches = reader.epoch(epoch)
        assert (len(batches), sum(map(len, batches))) == (usual.steps, pieces)
        counted.add(sum(len(reader.row_numbers(batch)) for batch in batches))
    assert min(counted) > 440


@pytest.mark.parametrize("stopped_after", [1, 7, 20, 43])
def test_a_training_with_it_resumes_to_the_same_bits(stopped_after: int) -> None:
    def trained(folder: MemoryFolder, stop_after: int | None = None) -> dict[str, bytes]:
        made = network("binary")
        valid = rows("binary", 200, seed=5)
        loop("binary", net=made, folder=folder, valid=valid, sampling=SAMPLING, stop_after=stop_after).run()
        return bits(made)

    folder = MemoryFolder()
    with pytest.raises(StopTraining):
        trained(folder, stopped_after)
    whole = trained(MemoryFolder())
    assert trained(folder) == whole


def test_another_curriculum_is_another_training(tmp_path: Path) -> None:
    trainings = prepare(tmp_path, "binary")
    usual = trainings.train(run="usual")
    found = {weights(trainings, usual)}
    for half_life in (0.5, 14.0):
        trainings.settings(curriculum={"by": "age", "half_life_days": half_life})
        made = trainings.train(run=f"{half_life}")
        assert weights(trainings, made) == weights(trainings, trainings.train(run=f"{half_life} again"))
        found.add(weights(trainings, made))
        trained = summaries.trained(made.result)
        assert trained.split.train == (DAYS[0], DAYS[1])
        assert trained.evaluations[-1].step == summaries.trained(usual.result).evaluations[-1].step
        assert trained.evaluations[-1].loss < trained.evaluations[0].loss
    assert len(found) == 3
