"""Steps as CUDA graphs: what a step has a GPU do is recorded once, and from then on begun by two calls.

A step of the default network is some two hundred kernels of a few microseconds. To begin them one by one takes the host
ten times as long as the GPU needs for them. A step is one graph. After a checkpoint it is two, since the update has to
wait for the copy: the first one has the forward and the backward pass, the second one clips and updates.

A graph has the shapes and the memory of one step, so there is one for each number of rows. Rows in groups, weights
whose sum only the host knows, and layers or losses of a pipeline's own have none: there the host begins each kernel.

A change here violates the promise of the project when a step that is replayed computes something else, to rounding,
than one that is not, or when what cannot be recorded ends a training.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor, nn

from ratchet.model.networks import Predictor
from tasks.train import losses
from tasks.train.data import Rows
from tasks.train.losses import Loss
from tasks.train.optimizer import Optimizers
from tasks.train.precision import FP16
from tasks.train.random_states import Generators
from tasks.train.settings import Settings
from tasks.train.table import Table

_BEFORE = 3
"""Steps of so many rows that are computed one kernel at a time before one is recorded: they allocate what stays."""
_MOST = 4
"""Numbers of rows that have graphs, each with gradients of its own. Batches without groups have three or four."""
_OURS = ("torch.nn.", "ratchet.model.")


class StepGraph:
    """A step that was recorded. words: the rows that it reads, int32 [rows, width].

    loss, norm: what the graphs of a part compute. figures: both, of the graph of the whole step.
    """

    def __init__(self, words: Tensor) -> None:
        self.words = words
        self.whole, self.passes, self.end = (torch.cuda.CUDAGraph() for _ in range(3))
        self.loss = self.norm = self.figures = torch.empty(0)
        self._norm: Tensor | None = None

    def begin(self, rows: Rows, *, apart: bool) -> Tensor:
        """Compute the gradients of a step, and unless it is `apart`, the update. Returns the loss."""
        self.words.copy_(_words(rows), non_blocking=True)
        if apart:
            self._norm = None
            self.passes.replay()
            return self.loss.clone()
        self.whole.replay()
        loss, self._norm = self.figures.clone().unbind()
        return loss

    def end_step(self) -> Tensor:
        """Clip the gradients, and update the weights, where that has not been done. Returns the norm before."""
        if self._norm is None:
            self.end.replay()
            return self.norm.clone()
        return self._norm


class StepGraphs:
    """The graphs of a training, by their number of rows and precision.

    backward: computes gradients of some rows, and returns their loss.
    """

    def __init__(
        self,
        network: Predictor,
        optimizer: Optimizers,
        backward: Callable[[Rows], Tensor],
        *,
        largest: float,
        apart: Callable[[], bool],
        warn: Callable[[str], None],
    ) -> None:
        """largest: the norm to which a larger gradient is clipped. apart: whether the update has to wait."""
        self.apart = apart
        self._weights = list(network.parameters())
        self._optimizer, self._backward, self._largest, self._warn = optimizer, backward, largest, warn
        self._graphs = dict[tuple[int, str], StepGraph]()
        self._seen = Counter[tuple[int, str]]()
        self._places = self._where()
        self._pool = torch.cuda.graph_pool_handle()
        self._is_off = False

    def find(self, rows: Rows, precision: str) -> StepGraph | None:
        """The graph of such a step; None while there is none."""
        if self._is_off or rows.table is None or rows.sizes is not None or rows.weight is not None:
            return None
        key = (len(rows), precision)
        if (places := self._where()) != self._places:  # weights were exchanged for others
            self._graphs, self._places = {}, places
        if key not in self._graphs and precision != FP16:
            self._seen[key] += 1
            if self._seen[key] > _BEFORE and len(self._graphs) < _MOST and self._has_room():
                self._try_to_record(rows, key)
        return self._graphs.get(key)

    def _try_to_record(self, rows: Rows, key: tuple[int, str]) -> None:
        device, pool = self._weights[0].device, self._pool
        generators, stream = Generators(), torch.cuda.current_stream(device)
        generator = torch.cuda.default_generators[device.index or 0]
        other = generator.clone_state()
        try:
            self._graphs[key] = self._recorded(rows)
        except RuntimeError as error:  # too little memory, too
            self._is_off, self._graphs = True, {}
            torch.cuda.set_stream(stream)
            _forget_recording(device.index or 0, pool)
            generator.graphsafe_set_state(other)
            generators.restore()
            cause = str(error).partition("\n")[0]
            self._warn(f"steps are not recorded for the GPU, and take longer: {type(error).__name__}: {cause:.200}")
        self._optimizer.zero_grad()

    def _recorded(self, rows: Rows) -> StepGraph:
        """Nothing is computed meanwhile: neither weights nor random numbers change."""
        table = rows.table
        assert table is not None
        made = StepGraph(torch.empty_like(table.words, device=self._weights[0].device))
        given = Rows.of(Table(words=made.words, layout=table.layout), sizes=None)
        self._optimizer.zero_grad()
        self._optimizer.prepare_to_record()
        with self._into(made.passes):
            made.loss = self._backward(given)
        with self._into(made.end):
            made.norm = self._update()
        self._optimizer.zero_grad()
        with self._into(made.whole):
            loss = self._backward(given)
            made.figures = torch.stack([loss.float(), self._update()])
        return made

    def _into(self, graph: torch.cuda.CUDAGraph) -> torch.cuda.graph:
        """Record into a graph; other threads may use the GPU meanwhile."""
        return torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local")

    def _update(self) -> Tensor:
        norm = self._optimizer.clip(self._largest)
        self._optimizer.step()
        return norm

    def _has_room(self) -> bool:
        """Whether the GPU's memory holds what a step needs for a moment once more: a graph keeps that."""
        device = self._weights[0].device
        moment = torch.cuda.max_memory_allocated(device) - torch.cuda.memory_allocated(device)
        return 2 * moment <= torch.cuda.mem_get_info(device)[0]

    def _where(self) -> list[int]:
        return [weight.data_ptr() for weight in self._weights]


def step_graphs(
    network: Predictor,
    optimizer: Optimizers,
    settings: Settings,
    loss: Loss,
    backward: Callable[[Rows], Tensor],
    *,
    largest: float,
    apart: Callable[[], bool],
    warn: Callable[[str], None],
) -> StepGraphs | None:
    """The graphs of a training whose steps can be recorded; None for others, and without a GPU."""
    if (
        network.device.type != "cuda"
        or settings.optimizer != "adamw"
        or settings.ema is not None
        or settings.recompute
        or optimizer.tables
        or loss.__module__ != losses.__name__
        or not all(_is_ours(each) for each in network.modules())
    ):
        return None
    return StepGraphs(network, optimizer, backward, largest=largest, apart=apart, warn=warn)


def _forget_recording(device: int, pool: tuple[int, int]) -> None:
    """Give memory to all again: where a graph is spoilt, torch leaves the allocator as it is while one is recorded."""
    from torch._C import _cuda_endAllocateToPool  # a torch for CPUs does not have it

    with suppress(RuntimeError):  # it was not left so
        _cuda_endAllocateToPool(device, pool)


def _is_ours(module: nn.Module) -> bool:
    return f"{type(module).__module__}.".startswith(_OURS)


def _words(rows: Rows) -> Tensor:
    assert rows.table is not None
    return rows.table.words
