"""independence: how many rows a row of a batch is worth, on a month of flights whose source is sorted by departure.

The variance of the means of batches over an epoch, against that of as many independent draws: the design effect (Kish
1965), 1 at best. Where no flights are here, a made-up month takes their place: rates that change by day and hour.
"""

import numpy as np
import torch

from benchmarks import tasksets
from benchmarks.measure import Result
from tasks.train.data import Reader, Rows
from tasks.train.joining import join, shuffled

_BATCH = 512
_EPOCHS = 20


def run(*, full: bool) -> Result:
    """The mean over four months for --full, else one; as training reads the rows, and as the source has them."""
    months = [_late(name) for name in (tasksets.FLIGHTS[:4] if full else tasksets.FLIGHTS[:1])]
    ours = float(np.mean([design_effect(join([_rows(late)], shuffled(len(late), None, 0))) for late in months]))
    theirs = float(np.mean([design_effect(_rows(late)) for late in months]))
    return Result(
        name="independence",
        ratio=ours,
        goal=1.1,
        unit="design effect",
        ours=ours,
        peer=theirs,
        peer_name="blocks of 64 rows in the order of the source",
        rows=(
            ("rows; batches", f"{sum(map(len, months)):,}; {_BATCH} rows, {_EPOCHS} epochs"),
            ("as training reads them", f"{ours:.3f}"),
            ("blocks of 64 rows in the order of the source", f"{theirs:.1f}"),
        ),
    )


def design_effect(rows: Rows) -> float:
    """The variance of the means of batches / that of independent draws from the same rows, without replacement."""
    reader = Reader(rows, batch_size=_BATCH, seed=0)
    means = [float(reader.read(batch).label.mean()) for epoch in range(_EPOCHS) for batch in reader.epoch(epoch)]
    independent = float(rows.label.var()) / _BATCH * (1 - _BATCH / len(rows))
    return float(np.var(means)) / independent


def _late(name: str) -> np.ndarray:
    if tasksets.SHARED.is_dir():
        task = tasksets.task_set(name)
        return np.concatenate([day[task.label].to_numpy(np.float32) for day in task.days])
    draw = np.random.default_rng(0)
    day, hour = np.repeat(draw.normal(size=30), 900), np.tile(np.linspace(-1, 1, 900), 30)
    return (draw.random(27_000) < 1 / (1 + np.exp(1.5 - day - hour))).astype(np.float32)


def _rows(label: np.ndarray) -> Rows:
    return Rows(
        numeric=torch.zeros(len(label), 0),
        places=torch.zeros(len(label), 0, dtype=torch.int64),
        label=torch.from_numpy(label),
        weight=None,
        sizes=None,
    )
