"""embedding: the time of a training step with ten million known ids, against that with ten thousand.

One column of ids, drawn uniformly, beside eight numbers; the default network and optimizer, steps of 4,096 rows, on one
thread. The peer is AdamW over all rows of the table, as training did it before.
"""

import numpy as np
import torch

from benchmarks.measure import Result
from benchmarks.nowhere import Nowhere
from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn
from ratchet.model.networks import Network
from tasks.train import optimizer
from tasks.train.building import dimension
from tasks.train.checkpoint import Checkpoint, Checkpointer
from tasks.train.data import Rows
from tasks.train.loop import Hooks, Loop
from tasks.train.losses import LOSSES, MASSES
from tasks.train.settings import Settings
from tasks.train.startup import prepare

_FEW, _MANY, _BATCH, _NUMBERS = 10_000, 10_000_000, 4096, 8
_STEPS, _STEPS_OF_ALL, _CLICKED = 400, 5, 0.1
_ROUNDS = 3


class _Unsaved(Checkpointer):
    """Saves nothing: a table of ten million vectors takes gigabytes."""

    def __init__(self) -> None:
        super().__init__(Nowhere(), keep=1, warn=print)

    def save(self, checkpoint: Checkpoint) -> None:
        """Nothing."""


def run(*, full: bool) -> Result:
    """Ten million ids for --full, else one million; the best of three rounds each."""
    many = _MANY if full else _MANY // 10
    few_s = min(_step_seconds(_FEW, _STEPS) for _ in range(_ROUNDS))
    many_s = min(_step_seconds(many, _STEPS) for _ in range(_ROUNDS))
    large, optimizer.LARGE = optimizer.LARGE, many + 2
    try:
        all_s = _step_seconds(many, _STEPS_OF_ALL)
    finally:
        optimizer.LARGE = large
    return Result(
        name="embedding",
        ratio=many_s / few_s,
        goal=1.3,
        unit="times the step with 10,000 ids",
        ours=many_s * 1000,
        peer=few_s * 1000,
        peer_name="10,000 ids, ms",
        rows=(
            (f"{many:,} ids", f"{many_s * 1000:.1f} ms a step"),
            (f"{_FEW:,} ids", f"{few_s * 1000:.1f} ms a step"),
            (f"{many:,} ids, all rows of the table in each step", f"{all_s * 1000:.1f} ms a step"),
        ),
    )


def _step_seconds(ids: int, steps: int) -> float:
    prepare(seed=0, cpus=1, gpus=0)
    draw = np.random.default_rng(0)
    count = _BATCH * steps
    network = Network(
        Description(
            objective="binary",
            numeric=tuple(NumericColumn(name=f"x{number}", transform=None) for number in range(_NUMBERS)),
            categorical=(CategoricalColumn(name="id", type="int64", vocabulary=ids, dimension=dimension(ids)),),
            derived={},
            architecture=Architecture(
                kind="dcn", hidden=(256, 128), cross_layers=2, dropout=0.2, bins=0, number_dim=0, masked=0.01, skip=True
            ),
            classes=1,
        )
    )
    rows = Rows(
        numeric=torch.from_numpy(draw.normal(size=(count, _NUMBERS)).astype(np.float32)),
        places=torch.from_numpy(draw.integers(1, ids + 1, size=(count, 1))),
        label=torch.from_numpy((draw.random(count) < _CLICKED).astype(np.float32)),
        weight=None,
        sizes=None,
    )
    result = Loop(
        network,
        Settings(
            objective="binary",
            steps=steps,
            epochs=1,
            evaluations=1,
            batch_size=_BATCH,
            learning_rate=1e-3,
            weight_decay=1e-2,
            seed=0,
            patience=1,
            checkpoint_every_s=1e9,
            lower_is_better=True,
        ),
        train=rows,
        valid=None,
        both=rows,
        loss=LOSSES["binary"],
        mass=MASSES["binary"],
        checkpointer=_Unsaved(),
        hooks=Hooks(
            progress=lambda *_: None,
            warn=print,
            begun=lambda *_: None,
            stopping=lambda: False,
            metric=lambda *_: None,
            finish=lambda raw: raw,
        ),
    ).run()
    return sum(each.seconds for each in result.history) / result.history[-1].step
