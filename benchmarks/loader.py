"""loader: rows a second of the reader of batches, against a copy of the same table, and against torch's DataLoader.

Tables of ten and of forty columns and a label, batches of 4,096 rows from all over them, on one thread. The copy
is one of the whole table. The DataLoader gives batches of single rows, in random order.
All times are the processor's, so that other work on the machine counts less.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

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
    """The medians of rounds, in each of which all three run; the ratio is the worse of both goals, on both tables."""
    torch.set_num_threads(1)
    found = [_measure(columns, rounds=9 if full else 5, full=full) for columns in (10, 40)]
    narrow, wide = found
    return Result(
        name="loader",
        ratio=max(max(_OF_COPY / one.of_copy, _OF_DATALOADER / one.of_dataloader) for one in found),
        goal=1.0,
        unit="of what is allowed",
        ours=narrow.of_copy,
        peer=wide.of_copy,
        peer_name="share of a copy with forty columns; ours: with ten",
        rows=tuple(
            (
                f"{one.columns} columns",
                f"{one.ours / 1e6:.1f} M rows/s, {one.of_copy:.2f} of a copy, {one.of_dataloader:.0f} times DataLoader",
            )
            for one in found
        ),
    )


@dataclass(frozen=True, kw_only=True)
class _Measured:
    columns: int
    ours: float
    of_copy: float
    of_dataloader: float


def _measure(columns: int, *, rounds: int, full: bool) -> _Measured:
    rows = made_up_table(20_000_000 // columns * (4 if full else 1), columns // 2)
    reader = Reader(rows, batch_size=BATCH, seed=0)
    total = float(rows.label.double().sum())
    if not np.isclose(sum(float(batch.label.double().sum()) for batch in map(reader.read, reader.epoch(1))), total):
        raise ValueError("the reader's batches are not the rows of the table")
    copier = _copier(rows)
    rates = [(_rate(lambda: _read(reader), rows), _rate(copier, rows), _of_dataloader(rows)) for _ in range(rounds)]
    return _Measured(
        columns=columns,
        ours=statistics.median(one for one, _, _ in rates),
        of_copy=statistics.median(one / copied for one, copied, _ in rates),
        of_dataloader=statistics.median(one / loaded for one, _, loaded in rates),
    )


def _rate(work: Callable[[], None], rows: Rows) -> float:
    begin = time.process_time()
    work()
    return len(rows) / (time.process_time() - begin)


def _read(reader: Reader) -> None:
    batches = reader.epoch(1)
    for number, batch in enumerate(batches):
        reader.expect(batches[number : number + reader.ahead])
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
    begin = time.process_time()
    for _ in loader:
        pass
    return _ROWS_OF_DATALOADER / (time.process_time() - begin)
