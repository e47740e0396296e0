"""A training in miniature: rows that can be learnt from, a network for them, and a checkpoint folder in memory."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn
from ratchet.model.networks import Network, finish
from tasks.train.checkpoint import Checkpointer
from tasks.train.data import Rows
from tasks.train.hooks import Hooks
from tasks.train.joining import join
from tasks.train.loop import Loop
from tasks.train.losses import LOSSES, MASSES, Loss
from tasks.train.ranks import Ranks
from tasks.train.settings import Settings

CLASSES = 3


class MemoryFolder:
    """A CheckpointFolder in a dictionary."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.siblings: list[MemoryFolder] = []

    def put(self, name: str, data: bytes) -> None:
        self.files[name] = data

    def get(self, name: str) -> bytes:
        try:
            return self.files[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    def write(self, name: str, content: Callable[[BinaryIO], None]) -> None:
        buffer = BytesIO()
        content(buffer)
        self.put(name, buffer.getvalue())

    @contextmanager
    def fetch(self, name: str) -> Iterator[Path]:
        data = self.get(name)
        with TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(data)
            yield path

    def names(self) -> Iterable[str]:
        return list(self.files)

    def remove(self, name: str) -> None:
        self.files.pop(name, None)

    def others(self) -> "Iterable[MemoryFolder]":
        return self.siblings


def rows(objective: str, count: int = 2000, *, seed: int = 0, weighted: bool = False) -> Rows:
    """Rows whose label depends on two numbers and a category of ten values."""
    draw = np.random.default_rng(seed)
    numeric = draw.normal(size=(count, 2)).astype(np.float32)
    place = draw.integers(1, 11, size=(count, 1))
    pull = 1.5 * numeric[:, 0] - numeric[:, 1] + (place[:, 0] - 5) / 3
    chance = 1 / (1 + np.exp(-pull))
    label: Any = {
        "ranking": (draw.random(count) < chance).astype(np.float32),
        "binary": (draw.random(count) < chance).astype(np.float32),
        "regression": (100 + 20 * pull).astype(np.float32),
        "multiclass": np.digitize(pull, [-1, 1]).astype(np.int64),
    }[objective]
    sizes = None
    if objective == "ranking":
        cuts = np.unique(np.append(np.cumsum(draw.integers(3, 12, count // 6)), count))
        sizes = torch.from_numpy(np.diff(cuts[cuts <= count], prepend=0))
    return Rows(
        numeric=torch.from_numpy(numeric),
        places=torch.from_numpy(place),
        label=torch.from_numpy(label),
        weight=torch.ones(count) if weighted else None,
        sizes=sizes,
    )


def network(
    objective: str, kind: str = "mlp", *, seed: int = 0, dropout: float = 0.0, masked: float = 0.01, members: int = 1
) -> Network:
    """A small network for such rows."""
    torch.manual_seed(seed)
    made = Network(
        Description(
            objective=objective,
            numeric=(NumericColumn(name="a", transform=None), NumericColumn(name="b", transform=None)),
            categorical=(CategoricalColumn(name="c", type="int64", vocabulary=10, dimension=4),),
            derived={},
            architecture=Architecture(
                kind=kind,
                hidden=(16,),
                cross_layers=2,
                dropout=dropout,
                bins=8,
                number_dim=3,
                masked=masked,
                skip=True,
                members=members,
            ),
            classes=CLASSES if objective == "multiclass" else 1,
        )
    )
    if made.numbers is not None:
        made.numbers.fit((torch.linspace(-2, 2, 9, dtype=torch.float64),) * 2)
    if objective == "regression":
        made.label_mean.fill_(100.0)
        made.label_scale.fill_(40.0)
    return made


def settings(objective: str, **changes: Any) -> Settings:
    """Settings for a training of a fraction of a second."""
    given = {
        "objective": objective, "steps": 10**6, "epochs": 3, "evaluations": 1, "batch_size": 128, "learning_rate": 1e-2, "weight_decay": 1e-5, "seed": 0,
        "patience": 5, "checkpoint_every_s": 1e9, "lower_is_better": True, **changes,
    }  # fmt: skip
    return Settings(**given)


def loop(
    objective: str,
    *,
    folder: MemoryFolder | None = None,
    net: Network | None = None,
    train: Rows | None = None,
    valid: Rows | None = None,
    stop_after: int | None = None,
    metric: Callable[[Rows, Tensor], float | None] | None = None,
    warnings: list[str] | None = None,
    loss: Loss | None = None,
    checkpointer: Checkpointer | None = None,
    stopping: Callable[[], bool] | None = None,
    progress: Callable[[str, int, int, dict[str, float]], None] = lambda *_: None,
    ranks: Ranks | None = None,
    **changes: Any,
) -> Loop:
    """A training. stop_after: the steps after which it receives a notice to stop. metric: if not the squared error. loss: if not that
    of the objective."""
    made = net or network(objective)
    polls = iter(range(1, 10**9))

    def notice() -> bool:
        return stop_after is not None and next(polls) >= stop_after

    def error(measured: Rows, scores: Tensor) -> float | None:
        predicted = scores if objective != "multiclass" else scores.argmax(1)
        return float((predicted.double() - measured.label.double()).square().mean())

    logged = [] if warnings is None else warnings
    given = train or rows(objective)
    parts = [given] if valid is None else [given, valid]
    return Loop(
        made,
        settings(objective, **changes),
        train=given,
        valid=valid,
        both=join(parts, np.arange(sum(map(len, parts)))),
        loss=loss or LOSSES[objective],
        mass=MASSES[objective],
        checkpointer=checkpointer or Checkpointer(folder or MemoryFolder(), keep=2, warn=logged.append),
        hooks=Hooks(
            progress=progress,
            warn=logged.append,
            begun=lambda *_: None,
            stopping=stopping or notice,
            metric=metric or error,
            finish=lambda raw: finish(made, objective, raw),
        ),
        ranks=ranks,
    )


def bits(made: Network) -> dict[str, bytes]:
    """The bytes of the weights, by name."""
    return {name: tensor.numpy().tobytes() for name, tensor in made.state_dict().items()}
