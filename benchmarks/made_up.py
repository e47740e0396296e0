"""A made-up table, the default network for it, and a training that saves nothing: what benchmarks of a step measure."""

import numpy as np
import torch

from benchmarks.nowhere import Nowhere
from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn
from ratchet.model.networks import Network
from tasks.train.building import dimension
from tasks.train.checkpoint import Checkpoint, Checkpointer
from tasks.train.data import Rows
from tasks.train.hooks import Hooks
from tasks.train.loop import Loop
from tasks.train.losses import LOSSES, MASSES
from tasks.train.ranks import Ranks
from tasks.train.settings import Settings
from tasks.train.table import Layout, Table

BATCH = 4096
DEFAULT = Architecture(
    kind="dcn", hidden=(256, 128), cross_layers=2, dropout=0.2, bins=48, number_dim=8, masked=0.01, skip=True
)
"""The default layers, for numbers with as many quantiles as there can be."""
RATE, DECAY = 1e-3, 1e-2
_NUMBERS, _CLICKED = 8, 0.1


class _Unsaved(Checkpointer):
    """Saves nothing: a table of ten million vectors takes gigabytes."""

    def __init__(self) -> None:
        super().__init__(Nowhere(), keep=1, warn=print)

    def save(self, checkpoint: Checkpoint) -> None:
        """Nothing."""


def made_up_network(ids: int) -> Network:
    """One column of ids beside eight numbers."""
    return Network(
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


def default_network(numbers: tuple[str, ...], columns: tuple[str, ...], ids: int) -> Network:
    """The default network for numbers and columns of ids from 1 to `ids`."""
    network = Network(
        Description(
            objective="binary",
            numeric=tuple(NumericColumn(name=name, transform=None) for name in numbers),
            categorical=tuple(
                CategoricalColumn(name=name, type="int64", vocabulary=ids, dimension=dimension(ids)) for name in columns
            ),
            derived={},
            architecture=DEFAULT,
            classes=1,
        )
    )
    network.preprocess.vocabulary.copy_(torch.arange(1, ids + 1).repeat(len(columns)))
    if network.numbers is not None:
        network.numbers.fit((torch.linspace(-2, 2, DEFAULT.bins + 1, dtype=torch.float64),) * len(numbers))
    return network


def made_up_rows(ids: int, count: int) -> Rows:
    """Rows for it, whose ids are drawn uniformly."""
    draw = np.random.default_rng(0)
    return Rows(
        numeric=torch.from_numpy(draw.normal(size=(count, _NUMBERS)).astype(np.float32)),
        places=torch.from_numpy(draw.integers(1, ids + 1, size=(count, 1))),
        label=torch.from_numpy((draw.random(count) < _CLICKED).astype(np.float32)),
        weight=None,
        sizes=None,
    )


def made_up_table(count: int, columns: int = 5) -> Rows:
    """Rows of so many numbers, as many categories, and a label in a table, as training reads them."""
    draw = np.random.default_rng(0)
    layout = Layout(label=torch.float32, weighted=False, numeric=columns, categorical=columns)
    words = np.empty((count, layout.width), np.int32)
    rows = Rows.of(Table(words=torch.from_numpy(words), layout=layout), sizes=None)
    rows.label.numpy()[:] = draw.random(count) < _CLICKED
    for column in range(columns):
        rows.numeric.numpy()[:, column] = draw.standard_normal(count, np.float32)
        rows.places.numpy()[:, column] = draw.integers(1, 1000, count, np.int32)
    return rows


def seconds_of_a_step(
    network: Network, rows: Rows, *, steps: int | None = None, epochs: int = 1, precision: str = "fp32"
) -> float:
    """Mean seconds of a step in epochs of the training loop, or in its first steps."""
    result = training(
        network,
        rows,
        checkpointer=_Unsaved(),
        batch_size=BATCH,
        steps=steps,
        epochs=epochs,
        precision=precision,
    ).run()
    return sum(each.seconds for each in result.history) / result.history[-1].step


def training(
    network: Network,
    rows: Rows,
    *,
    checkpointer: Checkpointer,
    batch_size: int,
    checkpoint_steps: int | None = None,
    steps: int | None = None,
    epochs: int = 1,
    checkpoint_every_s: float = 1e9,
    ranks: Ranks | None = None,
    precision: str = "fp32",
) -> Loop:
    """The training loop, of at most so many steps and epochs.

    checkpoint_steps, checkpoint_every_s: steps and seconds between two saves; at the end there is one more.
    """
    return Loop(
        network,
        Settings(
            objective="binary",
            steps=steps or len(rows),
            epochs=epochs,
            evaluations=1,
            batch_size=batch_size,
            learning_rate=RATE,
            weight_decay=DECAY,
            seed=0,
            patience=1,
            checkpoint_every_s=checkpoint_every_s,
            checkpoint_steps=checkpoint_steps,
            lower_is_better=True,
            precision=precision,
        ),
        train=rows,
        valid=None,
        both=rows,
        loss=LOSSES["binary"],
        mass=MASSES["binary"],
        checkpointer=checkpointer,
        hooks=Hooks(
            progress=lambda *_: None,
            warn=print,
            begun=lambda *_: None,
            stopping=lambda: False,
            metric=lambda *_: None,
            finish=lambda raw: raw,
        ),
        ranks=ranks,
    )
