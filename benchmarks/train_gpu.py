"""train-gpu: rows a second of a training on a GPU, against the same step on rows that are there, and a DataLoader.

The training is the default network in the loop of the project, in bf16: rows in a random order from a table of ten
columns, clipping, logging, checks of weights. On rows that are there, torch replays one CUDA graph of forward pass,
loss, backward pass, clipping and update, with the optimizer of the project, and does nothing else; it is also measured
with torch's AdamW, which has the same rate and decay for all weights. The DataLoader has eight workers and pinned
memory, gives batches of single rows in random order, and feeds the same step, one kernel after the other. The copy of
the table to the GPU, once a training, is not in the figures. How busy the GPU is, is asked of NVML in a training of its
own: to ask ten times a second delays steps.
"""

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.made_up import BATCH, DECAY, RATE, default_network, made_up_table, seconds_of_a_step
from benchmarks.measure import Result
from ratchet.model.networks import Network
from tasks.train.data import Rows
from tasks.train.losses import LOSSES
from tasks.train.optimizer import Optimizers
from tasks.train.precision import Precision
from tasks.train.startup import prepare
from tasks.train.vitals import gpu_utilization

_NAMES, _IDS = tuple(f"column{number}" for number in range(5)), 1000
_LARGEST_GRADIENT, _PRECISION = 5.0, "bf16"
_OF_DEVICE, _OF_DATALOADER, _BUSY = 0.97, 20.0, 90.0
_BATCHES, _WORKERS, _BATCHES_OF_DATALOADER, _EACH_S = 2_000, 8, 48, 0.1


@dataclass(frozen=True, kw_only=True)
class _Round:
    """Rows a second."""

    ours: float
    graph: float
    adamw: float
    plain: float


def run(*, full: bool) -> Result:
    """The medians of rounds; the ratio is the worse of both goals. Raises OSError without a GPU."""
    if not torch.cuda.is_available():
        raise OSError("this host has no GPU")
    rows = made_up_table(BATCH * _BATCHES)
    rounds = [_round(rows, epochs=20 if full else 5) for _ in range(5 if full else 3)]
    of_dataloader, busy = _of_dataloader(rows), _busy(rows)
    ours, graph, adamw, plain = (
        statistics.median(getattr(one, name) for one in rounds) for name in ("ours", "graph", "adamw", "plain")
    )
    share = statistics.median(one.ours / one.graph for one in rounds)
    return Result(
        name="train-gpu",
        ratio=max(_OF_DEVICE / share, _OF_DATALOADER * of_dataloader / ours),
        goal=1.0,
        unit="of what is allowed",
        ours=ours,
        peer=graph,
        peer_name="a CUDA graph of the same step on rows that are there, rows a second",
        rows=(
            ("GPU", f"{torch.cuda.get_device_name()}, torch {torch.__version__}"),
            ("the training", f"{ours:,.0f} rows/s, {1e6 * BATCH / ours:.0f} us a step"),
            ("a graph on rows that are there", f"{graph:,.0f} rows/s; the training has {share:.3f} of it"),
            ("with torch's AdamW", f"{adamw:,.0f} rows/s; the training has {ours / adamw:.3f} of it"),
            ("its kernels one by one", f"{plain:,.0f} rows/s; the training has {ours / plain:.2f} of it"),
            ("DataLoader, eight workers", f"{of_dataloader:,.0f} rows/s; the training has {ours / of_dataloader:.1f}"),
            ("the GPU is busy", "not known" if busy is None else f"{busy:.0f} % (goal: {_BUSY:.0f})"),
        ),
    )


def _round(rows: Rows, *, epochs: int) -> _Round:
    """The training between two measurements of the graph: the clock of a GPU is not always the same."""
    device = prepare(seed=0, cpus=1, gpus=1)
    there = Rows.of(rows.split(BATCH)[0].packed(), sizes=None).to(device)
    same, bare = _Same(_network().to(device)), _Bare(_network().to(device))
    replay, replay_bare = same.recorded(there), bare.recorded(there)
    before = _seconds(replay, _BATCHES)
    seconds = seconds_of_a_step(_network().to(device), rows, precision=_PRECISION, epochs=epochs)
    after, adamw = _seconds(replay, _BATCHES), _seconds(replay_bare, _BATCHES)
    plain = _seconds(lambda: bare.step(there), _BATCHES // 10)
    graph = (before + after) / 2
    return _Round(ours=BATCH / seconds, graph=BATCH / graph, adamw=BATCH / adamw, plain=BATCH / plain)


def _busy(rows: Rows) -> float | None:
    """The mean utilization of the GPU in a training, percent by NVML; None without its library."""
    device = prepare(seed=0, cpus=1, gpus=1)
    with _Busy() as busy:
        seconds_of_a_step(_network().to(device), rows, precision=_PRECISION, epochs=3)
    return busy.mean


def _network() -> Network:
    return default_network(_NAMES, _NAMES, _IDS)


class _Bare:
    """A step without the project's loop, with torch's AdamW."""

    def __init__(self, network: Network) -> None:
        self._network = network.train()
        Precision(_PRECISION).apply_to(network.body, network.device.type)
        self._begin()

    def _begin(self) -> None:
        rate = torch.tensor(RATE, device=self._network.device)
        weights = self._network.parameters()
        self._optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=DECAY, fused=True, capturable=True)

    def step(self, rows: Rows) -> None:
        """Take a step."""
        self._network.zero_grad(set_to_none=True)
        loss = LOSSES["binary"](self._network.scores(rows.numeric, rows.places), rows.label, None, None)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
        self._update()

    def _update(self) -> None:
        nn.utils.clip_grad_norm_(self._network.parameters(), _LARGEST_GRADIENT)
        self._optimizer.step()

    def recorded(self, rows: Rows) -> Callable[[], None]:
        """Record the step on these rows. Returns what replays it."""
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]  # the same
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step(rows)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            self.step(rows)
        return graph.replay


class _Same(_Bare):
    """The same with the project's optimizer."""

    def _begin(self) -> None:
        self._own = Optimizers(self._network, learning_rate=RATE, weight_decay=DECAY)
        self._own.prepare_to_record()

    def _update(self) -> None:
        self._own.clip(_LARGEST_GRADIENT)
        self._own.step()


class _Busy:
    """Asks NVML ten times a second, in a thread, how busy the GPU is."""

    def __init__(self) -> None:
        self._found, self._end = list[float](), threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    @property
    def mean(self) -> float | None:
        """Percent, without the first second and a half, in which the training begins."""
        steady = self._found[15:] or self._found[-1:]
        return statistics.fmean(steady) if steady else None

    def _ask(self) -> None:
        while not self._end.wait(_EACH_S):
            found = gpu_utilization(torch.device("cuda"))
            self._found += [] if found is None else [found]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def _seconds(step: Callable[[], object], steps: int) -> float:
    """Of a step, after some that do not count."""
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / steps


def _of_dataloader(rows: Rows) -> float:
    """Rows a second of the bare step, fed by torch's DataLoader; the first batches, for which workers start, apart."""
    some, bare = slice(0, 3 * _BATCHES_OF_DATALOADER * BATCH), _Bare(_network().to("cuda"))
    tensors: list[Tensor] = [tensor[some].contiguous() for tensor in (rows.numeric, rows.places, rows.label)]
    loader = DataLoader(TensorDataset(*tensors), batch_size=BATCH, shuffle=True, num_workers=_WORKERS, pin_memory=True)
    begin = 0.0
    for number, batch in enumerate(loader):
        if number == 2 * _WORKERS:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        numeric, places, label = (tensor.to("cuda", non_blocking=True) for tensor in batch)
        bare.step(Rows(numeric=numeric, places=places, label=label, weight=None, sizes=None))
        if number == 2 * _WORKERS + _BATCHES_OF_DATALOADER:
            break
    torch.cuda.synchronize()
    return _BATCHES_OF_DATALOADER * BATCH / (time.perf_counter() - begin)
