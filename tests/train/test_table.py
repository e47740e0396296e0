"""Columns survive their way through words, and a table on the disk has the words of one in memory."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.errors import Unavailable
from tasks.train.data import Reader, Rows, layout_of
from tasks.train.device_table import copied, on_device
from tasks.train.disk_table import DiskBuilder, needed_bytes
from tasks.train.joining import join, shuffled

LABELS = [torch.float32, torch.float64, torch.int64]


def made(count: int, label: torch.dtype, *, weighted: bool = False, numeric: int = 3, categorical: int = 2) -> Rows:
    draw = torch.Generator().manual_seed(0)
    return Rows(
        numeric=torch.randn(count, numeric, generator=draw).masked_fill(
            torch.rand(count, 1, generator=draw) < 0.1, torch.nan
        ),
        places=torch.randint(0, 2**31 - 1, (count, categorical), dtype=torch.int32, generator=draw),
        label=(torch.randn(count, dtype=torch.float64, generator=draw) * 2**40).to(label),
        weight=torch.rand(count, generator=draw) if weighted else None,
        sizes=None,
    )


def same(one: Rows, other: Rows) -> bool:
    pairs = [
        (getattr(one, name), getattr(other, name))
        for name in ("numeric", "places", "label", "weight", "sizes", "number")
    ]
    return all(
        (a is None and b is None) or (a.dtype == b.dtype and np.array_equal(a.numpy(), b.numpy(), equal_nan=True))
        for a, b in pairs
    )


@pytest.mark.parametrize("label", LABELS)
@given(st.booleans(), st.integers(0, 4), st.integers(0, 4), st.integers(1, 40), st.data())
def test_columns_survive_their_way_through_words(
    label: torch.dtype, weighted: bool, numeric: int, categorical: int, count: int, data: st.DataObject
) -> None:
    rows = made(count, label, weighted=weighted, numeric=numeric, categorical=categorical)
    packed = Rows.of(rows.packed(), sizes=None)
    assert same(packed, rows)
    cut = data.draw(st.integers(0, count))
    first, rest = packed.split(cut)
    assert same(first, Rows.of(first.packed(), sizes=None))
    assert torch.equal(rest.label, rows.label[cut:])


@pytest.mark.parametrize("sizes", [None, [10] * 203, [*range(1, 50), *([16] * 50)]])
@given(st.integers(0, 2), st.integers(0, 3))
def test_batches_that_are_read_ahead_are_those_that_are_read_by_themselves(
    sizes: list[int] | None, begin: int, change: int
) -> None:
    count = 2030 if sizes is None else sum(sizes)
    rows = join([made(count, torch.int64, weighted=True)], shuffled(count, None, 7))
    rows = replace(rows, sizes=None if sizes is None else torch.tensor(sizes))
    reader, alone = (Reader(rows, batch_size=128, seed=1) for _ in range(2))
    batches = reader.epoch(1)
    for number, batch in enumerate(batches[begin:], begin):
        if number == change:  # other batches follow than those that were read ahead
            reader.expect(batches[:3])
        reader.expect(batches[number : number + reader.ahead])
        assert same(reader.read(batch), alone.read(batch))
        assert same(reader.read(batch[1::2]), alone.read(batch[1::2]))  # another shard of the batch


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("groups", [False, True])
def test_a_table_on_the_disk_has_the_rows_of_one_in_memory_and_batches_too(
    tmp_path: Path, label: torch.dtype, groups: bool
) -> None:
    days = [made(count, label, weighted=True) for count in (700, 1, 1299)]
    sizes = np.full(200, 10) if groups else None
    places = shuffled(2000, sizes, 7)
    memory = join(days, places, sizes=sizes)
    disk = join(days, places, sizes=sizes, build=partial(DiskBuilder, folder=tmp_path, bucket_bytes=1000))
    assert list(tmp_path.iterdir()) == []
    assert same(disk, memory)
    for one, other in [(memory, disk), (memory.split(1000)[1], disk.split(1000)[1])]:
        readers = [Reader(rows, batch_size=256, seed=1) for rows in (one, other)]
        for batch, following in zip(readers[0].epoch(1), readers[0].epoch(1)[1:], strict=False):
            expected = readers[0].read(batch)
            assert same(readers[1].read(batch), expected)
            readers[1].expect(following)  # read ahead, it is the same
            assert same(readers[1].read(following), readers[0].read(following))
            readers[1].expect(following)  # and another batch than the expected one is read as well
            assert same(readers[1].read(batch), expected)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=50), st.lists(st.integers(0, 200), max_size=20))
def test_chunks_of_any_length_come_one_after_the_other(sizes: list[int], wanted: list[int]) -> None:
    rows = replace(made(sum(sizes), torch.float32), sizes=torch.tensor(sizes))
    reader = Reader(rows, batch_size=20, seed=0, chunk_rows=7)
    chunks = np.array([number for number in wanted if number < len(np.concatenate(reader.epoch(1)))], np.int64)
    read = reader.read(chunks)
    assert torch.equal(read.places, rows.places[torch.from_numpy(reader.row_numbers(chunks))])
    assert read.sizes is not None
    assert int(read.sizes.sum()) == len(read)


@pytest.mark.parametrize("label", LABELS)
def test_rows_gathered_on_the_device_are_those_of_the_host(label: torch.dtype) -> None:
    """Where there is no GPU, on the host: the gathering is the same."""
    rows = join([made(1000, label, weighted=True)], shuffled(1000, np.full(100, 10), 3), sizes=np.full(100, 10))
    assert rows.table is not None
    host = Reader(rows, batch_size=128, seed=0)
    there = Reader(rows, batch_size=128, seed=0, on_device=copied(rows.table, torch.device("cpu")))
    for batch in host.epoch(2):
        there.expect([batch])
        assert same(there.read(batch), host.read(batch))
    assert on_device(rows.table, torch.device("cpu")) is None


def test_a_disk_without_space_is_named_before_a_row_is_read(tmp_path: Path) -> None:
    layout = layout_of(made(1, torch.float32))
    needed = needed_bytes(layout, 10**12)
    with pytest.raises(
        Unavailable, match=rf"the disk is full, .* take {needed:,} bytes .* raise resources\.train\.memory"
    ):
        DiskBuilder(layout, 10**12, tmp_path)


def test_another_error_of_the_disk_is_not_called_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = DiskBuilder(layout_of(made(1, torch.float32)), 100, tmp_path)
    folder = os.open(tmp_path, os.O_RDONLY)
    for file in builder._buckets:
        os.dup2(folder, file.descriptor)
    os.close(folder)
    words = np.zeros((100, 6), np.int32)
    with pytest.raises(OSError, match="Bad file descriptor"):
        builder.add(words, np.arange(100, dtype=np.int32))
