"""Every epoch of a training has the same number of steps and each row once, whatever the sizes of the groups."""

import os

import numpy as np
import pytest
import torch

from tasks.train.data import Reader, Rows
from tests.train.miniature import MemoryFolder, loop, rows
from tests.train.test_data import numbered

TRAININGS = int(os.environ.get("RATCHET_TRAININGS", "1000"))
"""10,000 with `make soak`."""
EPOCHS = 20


def random_reader(draw: np.random.Generator) -> tuple[Reader, Rows]:
    """Up to 40 groups of 1 to 400 rows, or up to 3,000 rows without groups; a batch of 1 to 1,000 rows."""
    largest = int(np.exp(draw.uniform(0, np.log(400))))
    sizes = draw.integers(1, largest + 1, draw.integers(1, 41)).tolist() if draw.random() < 0.8 else None
    data = numbered(sum(sizes) if sizes else int(draw.integers(1, 3000)), sizes)
    return Reader(data, batch_size=int(np.exp(draw.uniform(0, np.log(1000)))), seed=int(draw.integers(100))), data


def test_in_many_trainings_every_epoch_has_as_many_steps_and_each_row_once() -> None:
    draw = np.random.default_rng(0)
    for training in range(TRAININGS):
        reader, data = random_reader(draw)
        first = reader.epoch(1)
        chunks = np.sort(np.concatenate(first))
        for epoch in range(1, EPOCHS + 1):
            batches = reader.epoch(epoch)
            assert len(batches) == len(first), training
            assert all(len(batch) for batch in batches), training
            assert np.array_equal(np.sort(np.concatenate(batches)), chunks), training
        read = [reader.read(batch) for batch in reader.epoch(training % EPOCHS)]
        assert torch.equal(torch.cat([each.label for each in read]).sort().values, data.label), training
        if data.sizes is not None:
            seen = torch.cat([each.sizes for each in read if each.sizes is not None])
            assert torch.equal(seen.sort().values, data.sizes.sort().values), training


@pytest.mark.parametrize(("smallest", "largest", "batch_size"), [(50, 200, 128), (100, 400, 256), (5, 1200, 256)])
def test_groups_larger_than_a_batch_are_trained_in_every_epoch(smallest: int, largest: int, batch_size: int) -> None:
    made = rows("ranking", 6000)
    sizes = np.random.default_rng(1).integers(smallest, largest, 1000)
    ends = np.unique(np.minimum(np.cumsum(sizes), len(made)))
    train = Rows(
        numeric=made.numeric,
        places=made.places,
        label=made.label,
        weight=None,
        sizes=torch.from_numpy(np.diff(ends, prepend=0)),
    )
    trained = loop("ranking", train=train, batch_size=batch_size, epochs=12, folder=MemoryFolder()).run()
    assert trained.history[-1].epoch == 12


def test_a_batch_never_has_two_groups_that_fill_it_alone() -> None:
    sizes = [5000, 3000, *[64] * 20]
    reader = Reader(numbered(sum(sizes), sizes), batch_size=256, seed=0)
    for epoch in range(1, EPOCHS + 1):
        assert len(reader.epoch(epoch)) == 2 + 20 * 64 // 256
        assert max(len(reader.read(batch)) for batch in reader.epoch(epoch)) < 5000 + 256
