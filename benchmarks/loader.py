"""loader: rows a second of the reader of batches, against a copy of the same table, and against torch's DataLoader.

A table of five numbers, five categories and a label, batches of 4,096 rows from all over it, on one thread. The copy
is one of the whole table. The DataLoader gives batches of single rows, in random order.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.made_up import BATCH, made_up_table
from benchmarks.measure import Result
from tasks.train.data import Reader, Rows

_OF_COPY, _OF_DATALOADER = 0.5, 25.0
_ROWS_OF_DATALOADER = 10 * BATCH


def run(*, full: bool) -> Result:
    """The medians of rounds, in each of which all three run; the ratio is that to the worse of both goals."""
    torch.set_num_threads(1)
    rows = made_up_table(8_000_000 if full else 2_000_000)
    reader = Reader(rows, batch_size=BATCH, seed=0)
    total = float(rows.label.double().sum())
    if not np.isclose(sum(float(batch.label.double().sum()) for batch in map(reader.read, reader.epoch(1))), total):
        raise ValueError("the reader's batches are not the rows of the table")
    copier = _copier(rows)
    rounds = [
        (_rate(lambda: _read(reader), rows), _rate(copier, rows), _of_dataloader(rows)) for _ in range(9 if full else 5)
    ]
    ours, copied, peer = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    share, times = (statistics.median(one[0] / one[place] for one in rounds) for place in (1, 2))
    return Result(
        name="loader",
        ratio=max(_OF_COPY / share, _OF_DATALOADER / times),
        goal=1.0,
        unit="of what is allowed",
        ours=ours / 1e6,
        peer=copied / 1e6,
        peer_name="a copy, millions of rows a second",
        rows=(
            ("rows", f"{len(rows):,}"),
            ("the reader", f"{ours / 1e6:.1f} M rows/s"),
            ("a copy", f"{copied / 1e6:.1f} M rows/s; the reader has {share:.2f} of it"),
            ("DataLoader", f"{peer / 1e6:.3f} M rows/s; the reader has {times:.0f} times as many"),
        ),
    )


def _rate(work: Callable[[], None], rows: Rows) -> float:
    begin = time.perf_counter()
    work()
    return len(rows) / (time.perf_counter() - begin)


def _read(reader: Reader) -> None:
    for batch in reader.epoch(1):
        reader.read(batch)


def _copier(rows: Rows) -> Callable[[], None]:
    table = rows.packed().words.numpy()
    other = np.zeros_like(table)
    other.fill(1)  # so that its pages are there
    return lambda: np.copyto(other, table)


def _of_dataloader(rows: Rows) -> float:
    """Rows a second of a DataLoader in this process; a worker would add a copy between processes."""
    some = slice(0, _ROWS_OF_DATALOADER)
    tensors: list[Tensor] = [tensor[some].contiguous() for tensor in (rows.numeric, rows.places, rows.label)]
    loader = DataLoader(TensorDataset(*tensors), batch_size=BATCH, shuffle=True)
    begin = time.perf_counter()
    for _ in loader:
        pass
    return _ROWS_OF_DATALOADER / (time.perf_counter() - begin)
