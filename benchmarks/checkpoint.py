"""checkpoint: how long the training loop waits for a save, against one memcpy of the state, and torch.save with fsync.

The real loop trains a network of two wide layers on one thread, and saves every third step to a store in a folder.
Where there is a GPU, it is measured as well: there it saves at the end of each epoch, and a save is compared with one
copy of the state into pinned memory. The wait is how much longer the next two steps take. A state of 201 MB decides,
and one of 51 MB is shown beside it.
"""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
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
from tasks.train.checkpoint import Checkpoint, Checkpointer
from tasks.train.parts import Output
from tasks.train.startup import prepare

_BATCH, _STEPS, _EVERY, _NUMBERS = 256, 19, 3, 8
_BATCH_OF_GPU, _STEPS_OF_GPU, _EPOCHS_OF_GPU = 4096, 200, 6
_GOAL = 0.3


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
    ratio, of_gpu = statistics.median(each.stall / each.memcpy for each in rounds), list[_OfGpu]()
    if torch.cuda.is_available():
        of_gpu = [_round_of_gpu(width) for width in (2048, 4096) for _ in range(3)]
        ratio = max(ratio, statistics.median(each.stall / each.copy for each in of_gpu[3:]))
    return Result(
        name="checkpoint",
        ratio=ratio,
        goal=_GOAL,
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
            *((torch.cuda.get_device_name(), each.shown) for each in of_gpu),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class _OfGpu:
    """Seconds. stall: how much longer two steps take if a state is saved before them.

    copy: of the state into pinned memory. step: without a save. host: that the loop waits. bytes: of the state.
    """

    stall: float
    copy: float
    step: float
    host: float
    bytes: int

    @property
    def shown(self) -> str:
        """In one line."""
        return (
            f"waits {1000 * self.stall:.2f} ms for a save of {self.bytes / 1e6:,.0f} MB, {self.stall / self.copy:.2f}"
            f" of a copy into pinned memory ({1000 * self.copy:.2f} ms); a step takes {1000 * self.step:.2f} ms, and"
            f" the host waits {1000 * self.host:.2f} ms"
        )


class _Timed(Checkpointer):
    """times: when the updates of the weights could begin. saves: whether anything is saved."""

    def __init__(self, folder: Path, *, saves: bool) -> None:
        super().__init__(Folder(folder), keep=2, warn=print)
        self.times, self._saves = list[float](), saves

    def save(self, checkpoint: Checkpoint) -> None:
        """Save it, or nothing."""
        if self._saves:
            super().save(checkpoint)

    def wait_for_copy(self) -> None:
        """Wait, and note the time when the GPU has done what it has to before the update."""
        super().wait_for_copy()
        torch.cuda.synchronize()
        self.times.append(time.perf_counter())

    def between_epochs(self) -> float:
        """Median seconds of the first two steps of an epoch, and what is before them; without the first time."""
        ends = range(2 * _STEPS_OF_GPU, len(self.times), _STEPS_OF_GPU)
        return statistics.median(self.times[end + 1] - self.times[end - 1] for end in ends)


def _round_of_gpu(width: int) -> _OfGpu:
    calm, _ = _train_on_gpu(width, saves=False)
    saved, state = _train_on_gpu(width, saves=True)
    there = [tensor.to("cuda") for tensor in state.values()]
    copies = [torch.empty_like(tensor, pin_memory=True) for tensor in state.values()]
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for copy, tensor in zip(copies, there, strict=True):
            copy.copy_(tensor, non_blocking=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return _OfGpu(
        stall=max(saved.between_epochs() - calm.between_epochs(), 0.0),
        copy=min(times),
        step=statistics.median(after - before for before, after in pairwise(calm.times)),
        host=statistics.median(saved.stalls[1:]),
        bytes=sum(tensor.nbytes for tensor in there),
    )


def _train_on_gpu(width: int, *, saves: bool) -> tuple[_Timed, dict[str, Tensor]]:
    """What saved; the state at the end."""
    device = prepare(seed=0, cpus=1, gpus=1)
    rows = made_up_rows(1, _STEPS_OF_GPU * _BATCH_OF_GPU)
    rows = replace(rows, places=rows.places[:, :0])
    with TemporaryDirectory() as folder:
        checkpointer = _Timed(Path(folder), saves=saves)
        network = _network(width).to(device)
        training(network, rows, batch_size=_BATCH_OF_GPU, epochs=_EPOCHS_OF_GPU, checkpointer=checkpointer).run()
        found = checkpointer.newest()
    return checkpointer, {} if found is None else _tensors(found)


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
    return result.history[-1].seconds / result.history[-1].step, checkpointer, _tensors(found)


def _tensors(found: Checkpoint) -> dict[str, Tensor]:
    """Of the state, without the best weights, which were saved before."""
    return {name: value for name, value in found.state.items() if isinstance(value, Tensor) and "best." not in name}


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
