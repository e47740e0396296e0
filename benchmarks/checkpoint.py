"""checkpoint: how long the training loop waits for a save, against one memcpy of the state, and torch.save with fsync.

The real loop trains a network of two wide layers on one thread, and saves every third step to a store in a folder.
"""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks.made_up import made_up_rows, training
from benchmarks.measure import Result
from ratchet.model.description import Architecture, Description, NumericColumn
from ratchet.model.networks import Network
from ratchet.store.checkpoint_folder import ReadFolder
from ratchet.store.file import FileStore
from tasks.train.checkpoint import Checkpointer
from tasks.train.parts import Output
from tasks.train.startup import prepare

_BATCH, _STEPS, _EVERY, _NUMBERS = 256, 19, 3, 8


class Folder(ReadFolder):
    """A folder of checkpoints without leases."""

    def __init__(self, folder: Path) -> None:
        self._files = FileStore(folder / "store")
        super().__init__(self._files, "states", folder)

    def put(self, name: str, data: bytes) -> None:
        """Write a small file, durably."""
        self._files.create(f"{self._prefix}/{name}", data)

    def write(self, name: str, content: Callable[[Output], None]) -> None:
        """Write a large file, durably."""
        with self._temporary() as path:
            with path.open("xb") as file:
                content(file)
            self._files.upload(path, f"{self._prefix}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._files.delete(f"{self._prefix}/{name}")

    def others(self) -> tuple[ReadFolder, ...]:
        """None."""
        return ()


@dataclass(frozen=True, kw_only=True)
class _Round:
    """Seconds. stall: of the loop, each save. step, calm: of a step, with and without saves. bytes: of the state."""

    stall: float
    memcpy: float
    torch_save: float
    durable: float
    step: float
    calm: float
    bytes: int


def run(*, full: bool) -> Result:
    """The median of the ratios of rounds; each measures the loop, and a memcpy and torch.save of the same state."""
    rounds = [_round(4096 if full else 2048) for _ in range(5 if full else 3)]
    stall, memcpy, saved, durable, step, calm = (
        statistics.median(getattr(each, name) for each in rounds) * 1000
        for name in ("stall", "memcpy", "torch_save", "durable", "step", "calm")
    )
    return Result(
        name="checkpoint",
        ratio=statistics.median(each.stall / each.memcpy for each in rounds),
        goal=0.3,
        unit="of a memcpy of the state",
        ours=stall,
        peer=memcpy,
        peer_name="one memcpy of the state, ms",
        rows=(
            ("state", f"{rounds[0].bytes / 1e6:,.0f} MB"),
            ("the loop waits for a save", f"{stall:.1f} ms"),
            ("one memcpy of the state", f"{memcpy:.1f} ms"),
            ("torch.save and fsync", f"{saved:.1f} ms; the wait is {stall / saved:.4f} of it"),
            ("from its start until it is durable", f"{durable:.1f} ms"),
            (f"a step, one of {_EVERY} saved", f"{step:.1f} ms; {calm:.1f} ms without saves"),
        ),
    )


def _round(width: int) -> _Round:
    calm, _, _ = _train(width, every=None)
    step, checkpointer, state = _train(width, every=_EVERY)
    memcpy, saved = _alone(state)
    return _Round(
        stall=statistics.median(checkpointer.stalls[1:]),
        memcpy=memcpy,
        torch_save=saved,
        durable=statistics.median(checkpointer.durations[1:]),
        step=step,
        calm=calm,
        bytes=sum(tensor.nbytes for tensor in state.values()),
    )


def _train(width: int, *, every: int | None) -> tuple[float, Checkpointer, dict[str, Tensor]]:
    """Seconds of a step; what saved; the state at the end."""
    prepare(seed=0, cpus=1, gpus=0)
    network = _network(width)
    with TemporaryDirectory() as folder:
        checkpointer = Checkpointer(Folder(Path(folder)), keep=2, warn=print)
        rows = made_up_rows(1, _STEPS * _BATCH)
        rows = replace(rows, places=rows.places[:, :0])
        loop = training(network, rows, batch_size=_BATCH, checkpointer=checkpointer, checkpoint_steps=every)
        result = loop.run()
        found = checkpointer.newest()
    assert found is not None
    tensors = {name: value for name, value in found.state.items() if isinstance(value, Tensor) and "best." not in name}
    return result.history[-1].seconds / result.history[-1].step, checkpointer, tensors


def _network(width: int) -> Network:
    return Network(
        Description(
            objective="binary",
            numeric=tuple(NumericColumn(name=f"x{number}", transform=None) for number in range(_NUMBERS)),
            categorical=(),
            derived={},
            architecture=Architecture(
                kind="mlp", hidden=(width, width), cross_layers=2, dropout=0, bins=0, number_dim=0, masked=0, skip=True
            ),
            classes=1,
        )
    )


def _alone(state: dict[str, Tensor]) -> tuple[float, float]:
    """Seconds of a memcpy of the state into memory that is there, the best of three; and of torch.save and fsync."""
    copies = {name: tensor.clone() for name, tensor in state.items()}
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        for name, tensor in state.items():
            copies[name].copy_(tensor)
        times.append(time.perf_counter() - begin)
    with TemporaryDirectory() as folder, Path(folder, "state.pt").open("wb") as file:
        begin = time.perf_counter()
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
        return min(times), time.perf_counter() - begin
