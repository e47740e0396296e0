"""A batch has the rows that a person writes, also fewer than the pieces in which rows are read."""

import pytest

from ratchet.contracts.step_rows import auto_batch_size
from tasks.train.data import Reader
from tests.train.test_data import numbered


@pytest.mark.parametrize("batch_size", [1, 8, 32, 63, 64])
def test_a_step_has_the_rows_of_the_batch_size(batch_size: int) -> None:
    reader = Reader(numbered(640, None), batch_size=batch_size, seed=0)
    batches = [len(reader.read(batch)) for batch in reader.epoch(1)]
    assert set(batches[:-1]) == {batch_size} or 640 % batch_size
    assert -(-640 // batch_size) - 1 <= len(batches) <= -(-640 // batch_size)
    assert max(batches) < 2 * batch_size
    assert sum(batches) == 640


def test_a_small_batch_of_a_ranking_has_whole_groups() -> None:
    reader = Reader(numbered(300, [3] * 100), batch_size=6, seed=0)
    assert {len(reader.read(batch)) for batch in reader.epoch(1)} == {6}


@pytest.mark.parametrize("rows", [12_800, 12_799, 25_599, 25_600, 100_000, 204_800, 10**7])
def test_auto_is_what_the_documentation_says(rows: int) -> None:
    size = auto_batch_size(rows)
    assert 256 <= size <= 4096
    assert size & (size - 1) == 0
    assert rows // size >= 50 or rows < 12_800
    assert 2 * size > 4096 or rows // (2 * size) < 50
