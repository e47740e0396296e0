"""A batch has the rows that a person writes, also fewer than the pieces in which rows are read."""

import pytest
from torch import nn

from ratchet.contracts.step_rows import CHUNK_ROWS, auto_batch_size
from tasks.train.data import Reader
from tests.train.miniature import loop, network, rows
from tests.train.test_data import numbered


@pytest.mark.parametrize("batch_size", [1, 8, 32, 63, 64])
def test_a_step_has_the_rows_of_the_batch_size(batch_size: int) -> None:
    reader = Reader(numbered(640, None), batch_size=batch_size, seed=0)
    batches = [len(reader.read(batch)) for batch in reader.epoch(1)]
    assert set(batches[:-1]) == {batch_size} or 640 % batch_size
    assert -(-640 // batch_size) - 1 <= len(batches) <= -(-640 // batch_size)
    assert max(batches) < 2 * batch_size
    assert sum(batches) == 640


@pytest.mark.parametrize(("count", "batch_size"), [(771, 256), (6403, 64), (102_403, 256), (130, 128), (17, 16)])
def test_no_batch_is_a_remnant(count: int, batch_size: int) -> None:
    """Each takes a step of the optimizer as long as that of any other."""
    reader = Reader(numbered(count, None), batch_size=batch_size, seed=0)
    rows = [len(reader.read(batch)) for batch in reader.epoch(1)]
    assert len(rows) == -(-count // batch_size)
    assert min(rows) >= count / len(rows) / 2
    assert max(rows) <= batch_size + CHUNK_ROWS


def test_a_small_batch_of_a_ranking_has_whole_groups() -> None:
    reader = Reader(numbered(300, [3] * 100), batch_size=6, seed=0)
    assert {len(reader.read(batch)) for batch in reader.epoch(1)} == {6}


@pytest.mark.parametrize("sizes", [None, [16, 1], [9, 7, 1], [1] * 17])
def test_no_batch_has_a_single_row(sizes: list[int] | None) -> None:
    """A layer that normalises by batch, such as nn.BatchNorm1d, cannot be trained on one row."""
    reader = Reader(numbered(17, sizes), batch_size=16, seed=0)
    for epoch in range(1, 20):
        batches = [len(reader.read(batch)) for batch in reader.epoch(epoch)]
        assert sum(batches) == 17
        assert len(batches) == reader.steps
        assert min(batches) > 1


def test_a_network_that_normalises_by_batch_is_trained_whatever_the_number_of_rows() -> None:
    for count in range(31, 36):
        made = network("binary")
        made.body = nn.Sequential(nn.BatchNorm1d(14), nn.Linear(14, 1))
        trained = loop("binary", net=made, train=rows("binary", count), batch_size=16, epochs=4).run()
        assert trained.history[-1].epoch == 4


@pytest.mark.parametrize("count", [12_800, 12_799, 25_599, 25_600, 100_000, 204_800, 10**7])
def test_auto_is_what_the_documentation_says(count: int) -> None:
    size = auto_batch_size(count)
    assert 256 <= size <= 4096
    assert size & (size - 1) == 0
    assert count // size >= 50 or count < 12_800
    assert 2 * size > 4096 or count // (2 * size) < 50
