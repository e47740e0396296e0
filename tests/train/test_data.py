"""Each row once an epoch, groups whole, and an order that depends on seed, epoch and step alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.step_rows import auto_batch_size, step_rows
from tasks.train.data import Reader, Rows
from tasks.train.joining import join, shuffled


def numbered(count: int, sizes: list[int] | None) -> Rows:
    number = torch.arange(count, dtype=torch.float32)
    return Rows(
        numeric=number[:, None],
        places=torch.zeros(count, 0, dtype=torch.int64),
        label=number,
        weight=number,
        sizes=None if sizes is None else torch.tensor(sizes),
    )


@given(st.integers(1, 700), st.integers(1, 300), st.integers(1, 90), st.integers(0, 5))
def test_each_row_comes_once_an_epoch(count: int, batch_size: int, chunk: int, epoch: int) -> None:
    reader = Reader(numbered(count, None), batch_size=batch_size, seed=1, chunk_rows=chunk)
    seen = torch.cat([reader.read(batch).label for batch in reader.epoch(epoch)])
    assert sorted(seen.tolist()) == list(range(count))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 200), st.integers(1, 90))
def test_groups_stay_whole(sizes: list[int], batch_size: int, chunk: int) -> None:
    reader = Reader(numbered(sum(sizes), sizes), batch_size=batch_size, seed=0, chunk_rows=chunk)
    starts = np.cumsum([0, *sizes])[:-1].tolist()
    seen = []
    for batch in reader.epoch(1):
        rows = reader.read(batch)
        assert rows.sizes is not None
        assert int(rows.sizes.sum()) == len(rows)
        begin = 0
        for size in rows.sizes.tolist():
            group = rows.label[begin : begin + size].int().tolist()
            assert group == list(range(group[0], group[0] + size))
            seen.append((group[0], size))
            begin += size
    assert sorted(seen) == list(zip(starts, sizes, strict=True))


@given(st.integers(1, 700), st.integers(1, 4))
def test_over_all_ranks_each_row_comes_once_and_every_rank_takes_as_many_steps(count: int, world_size: int) -> None:
    reader = Reader(numbered(count, None), batch_size=128, seed=0, chunk_rows=8)
    ranks = [reader.epoch(1, rank=rank, world_size=world_size) for rank in range(world_size)]
    assert len({len(batches) for batches in ranks}) == 1
    chunks = np.concatenate([np.concatenate(batches) for batches in ranks])
    assert sorted(chunks.tolist()) == list(range(-(-count // 8)))


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        reader = Reader(numbered(500, None), batch_size=64, seed=seed, chunk_rows=8)
        return [batch.tolist() for batch in reader.epoch(epoch)]

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(0, 2)
    assert order(0, 1) != order(1, 1)


def test_batches_have_the_batch_size_to_within_a_chunk() -> None:
    reader = Reader(numbered(1000, None), batch_size=128, seed=0, chunk_rows=8)
    sizes = [len(reader.read(batch)) for batch in reader.epoch(1)]
    assert all(120 <= size <= 136 for size in sizes[:-1])


def test_join_puts_each_row_at_its_place() -> None:
    joined = join([numbered(3, [1, 2]), numbered(2, [2])], np.array([4, 2, 3, 0, 1]))
    assert joined.label.tolist() == [0, 1, 1, 2, 0]
    assert joined.sizes is not None
    assert joined.sizes.tolist() == [2, 2, 1]
    assert joined.weight is not None
    assert joined.weight.tolist() == joined.label.tolist()
    assert joined.number is not None
    assert joined.number.tolist() == [3, 4, 1, 2, 0]
    plain = join([replace(numbered(3, None), weight=None)], np.arange(3))
    assert plain.sizes is None
    assert plain.weight is None


@pytest.mark.parametrize("places", [2, 4])
def test_join_refuses_days_with_another_number_of_rows(places: int) -> None:
    with pytest.raises(ValueError, match=f"3 rows (or more )?instead of {places}"):
        join([numbered(3, None)], np.arange(places))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(0, 9))
def test_shuffled_rows_keep_their_groups_whole_and_in_order(sizes: list[int], seed: int) -> None:
    rows = numbered(sum(sizes), sizes)
    joined = join([rows], shuffled(len(rows), np.array(sizes), seed))
    assert joined.sizes is not None
    ends = np.cumsum(sizes)
    begin = 0
    for size in joined.sizes.tolist():
        group = joined.label[begin : begin + size].int().tolist()
        assert group == list(range(group[0], group[0] + size))
        assert group[-1] + 1 in ends
        begin += size
    assert sorted(joined.label.tolist()) == list(range(len(rows)))


def test_the_order_of_shuffled_rows_depends_on_the_seed_alone() -> None:
    assert np.array_equal(shuffled(100, None, 1), shuffled(100, None, 1))
    assert not np.array_equal(shuffled(100, None, 1), shuffled(100, None, 2))


@given(st.lists(st.integers(1, 9), min_size=2, max_size=20), st.data())
def test_split_cuts_where_a_group_ends(sizes: list[int], data: st.DataObject) -> None:
    rows = numbered(sum(sizes), sizes)
    groups = data.draw(st.integers(0, len(sizes)))
    first, rest = rows.split(sum(sizes[:groups]))
    assert first.sizes is not None
    assert rest.sizes is not None
    assert (first.sizes.tolist(), rest.sizes.tolist()) == (sizes[:groups], sizes[groups:])
    assert torch.equal(torch.cat([first.label, rest.label]), rows.label)
    assert [len(part) for part in numbered(5, None).split(2)] == [2, 3]


@pytest.mark.parametrize("sizes", [None, [10] * 2000])
def test_a_batch_is_as_good_as_independent_rows_whatever_the_order_of_the_source(sizes: list[int] | None) -> None:
    """The source is sorted by day and label. A batch of its chunks of 64 rows is worth a 50th of its rows."""
    draw = np.random.default_rng(0)
    day = np.repeat(np.arange(20), 1000)
    label = draw.normal(size=20_000) + day % 7
    order = np.lexsort((label, day))
    rows = replace(numbered(20_000, sizes), label=torch.from_numpy(label[order]))
    joined = join([rows], shuffled(20_000, None if sizes is None else np.array(sizes), 0))
    unit = rows.label.numpy() if sizes is None else rows.label.numpy().reshape(-1, 10).mean(1)

    def design_effect(given: Rows) -> float:
        reader = Reader(given, batch_size=640, seed=0)
        means = [float(reader.read(batch).label.mean()) for epoch in range(20) for batch in reader.epoch(epoch)]
        return float(np.var(means) / (unit.var() / (640 / (20_000 / len(unit)))))

    assert design_effect(joined) < 1.15
    if sizes is None:
        assert design_effect(rows) > 10


@given(st.integers(1, 300), st.integers(1, 64))
def test_parts_are_about_equal_and_none_is_empty(count: int, count_of_parts: int) -> None:
    parts = numbered(count, None).parts(count_of_parts)
    assert len(parts) == min(count, count_of_parts)
    assert {len(part) for part in parts} <= {count // len(parts), -(-count // len(parts))}
    assert torch.cat([part.numeric[:, 0] for part in parts]).tolist() == list(range(count))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 64))
def test_parts_never_cut_a_group(sizes: list[int], count_of_parts: int) -> None:
    rows = numbered(sum(sizes), sizes)
    parts = rows.parts(count_of_parts)
    assert len(parts) <= count_of_parts
    assert all(0 < len(part) < len(rows) / count_of_parts + max(sizes) for part in parts)
    seen = [part.sizes for part in parts if part.sizes is not None]
    assert [int(some.sum()) for some in seen] == [len(part) for part in parts]
    assert torch.cat(seen).tolist() == sizes
    assert torch.cat([part.label for part in parts]).tolist() == list(range(len(rows)))


@pytest.mark.parametrize(("rows", "size"), [(1, 256), (20_000, 256), (50_000, 512), (100_000, 1024), (10**8, 4096)])
def test_the_automatic_batch_size_depends_on_the_rows_alone(rows: int, size: int) -> None:
    assert auto_batch_size(rows) == size


@pytest.mark.parametrize(
    ("asked", "rows", "step"), [("auto", 20_000, 256), (1000, 20_000, 1000), (1000, 500, 500), (8, 20_000, 8)]
)
def test_a_step_has_the_rows_that_are_asked_for(asked: Any, rows: int, step: int) -> None:
    assert step_rows(asked, rows) == step
    if asked != "auto":
        reader = Reader(numbered(rows, None), batch_size=asked, seed=0)
        assert abs(len(reader.read(reader.epoch(1)[0])) - step) < 64
