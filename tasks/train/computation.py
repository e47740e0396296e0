"""Raw outputs, the loss and its gradients for rows, computed in micro-batches to bound the memory.

What runs out of memory is computed again at once, in twice as many micro-batches; so is everything after it.

A change here violates the promise of the project when a step in micro-batches differs from that of the
whole batch by more than rounding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import TypeVar

import torch
from torch import Tensor

from ratchet.contracts.step_rows import CHUNK_ROWS, MAX_ACCUMULATION
from ratchet.model.networks import Predictor
from ratchet.runtime.user_code import lacks_memory
from tasks.train.buffers import Buffers
from tasks.train.data import Rows
from tasks.train.losses import Loss, Mass
from tasks.train.memory import does_not_fit
from tasks.train.optimizer import Optimizers
from tasks.train.precision import Precision
from tasks.train.random_states import Generators
from tasks.train.row_tables import forget_gradients, with_gradients
from tasks.train.settings import Settings
from tasks.train.step_graphs import StepGraph, StepGraphs, step_graphs

T = TypeVar("T")
_FEWEST_ROWS = 2
"""Rows of a micro-batch, on average at least: a batch norm cannot train on one."""
_ROWS_OF_LOSS = 65_536
"""Rows whose loss is computed at once where it needs no gradient: LambdaLoss takes 850 bytes for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLoss:
    """The loss of a batch, on the network's device, and the mass that it is a mean over."""

    loss: Tensor
    mass: float


class Computation:
    """Rows are read from the host's memory; results stay on the network's device.

    accumulation: the number of micro-batches of a step. device: the network's. halved: called when it has been doubled.
    alive: called after each micro-batch. graphs: of steps, on a GPU. graph: that of the last step, or None.
    """

    def __init__(
        self, network: Predictor, settings: Settings, *, loss: Loss, mass: Mass, precision: Precision | None = None
    ) -> None:
        """precision: of training; what is not trained is computed in fp32."""
        self.precision = precision or Precision()
        self.accumulation = settings.accumulation
        self.halved: Callable[[], None] = lambda: None
        self.alive: Callable[[], None] = lambda: None
        self.graphs: StepGraphs | None = None
        self.graph: StepGraph | None = None
        self._network = network
        self._loss, self._mass, self._settings = loss, mass, settings
        self._standardise = settings.objective == "regression"
        self._batch_size = settings.batch_size
        self.device = network.device

    def record_steps(
        self, optimizer: Optimizers, *, largest: float, apart: Callable[[], bool], warn: Callable[[str], None]
    ) -> None:
        """Record steps as CUDA graphs, where that can be; see StepGraphs."""
        network, settings = self._network, self._settings
        self.graphs = step_graphs(
            network, optimizer, settings, self._loss, self.backward, largest=largest, apart=apart, warn=warn
        )

    def compute_step(self, batch: Rows) -> BatchLoss:
        """The same for a step whose gradients nothing is added to: by its graph, where it has one."""
        self.graph = None
        if self.graphs is not None and self.accumulation == 1:
            self.graph = self.graphs.find(batch, self.precision.name)
        if self.graphs is None or self.graph is None:
            return self.add_gradients(batch)
        loss = self.graph.begin(batch, apart=self.graphs.apart())
        self.alive()
        return BatchLoss(loss=loss, mass=self._mass(batch))

    def add_gradients(self, batch: Rows) -> BatchLoss:
        """Sum the gradients of a step over its micro-batches. Returns the loss of the whole batch, to rounding."""
        return self._halving(lambda: self.compute(batch, self.accumulation))

    def _halving(self, compute: Callable[[], T]) -> T:
        """What `compute` returns, with as many micro-batches as it takes.

        Raises ConfigurationError where none is enough: it would fail in the same way the next time.
        """
        while True:
            generators = Generators()
            buffers = Buffers(self._network.body)
            try:
                return compute()
            except (MemoryError, RuntimeError) as error:
                if not lacks_memory(error):
                    raise
                if 2 * self.accumulation > min(MAX_ACCUMULATION, self._batch_size // _FEWEST_ROWS):
                    raise does_not_fit(error, self._batch_size, self.accumulation) from error
            forget_gradients(self._network)  # here, where the error holds no tensors any more
            generators.restore()
            buffers.restore()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            self.halve_to(2 * self.accumulation)

    def halve_to(self, accumulation: int) -> None:
        """Compute in so many micro-batches from now on."""
        if accumulation != self.accumulation:
            self.accumulation = accumulation
            self.halved()

    def compute(self, batch: Rows, accumulation: int) -> BatchLoss:
        """The same in so many micro-batches, whether or not they fit; in fewer where one would have a single row."""
        parts = batch.parts(max(min(accumulation, len(batch) // _FEWEST_ROWS), 1))
        masses = [self._mass(part) for part in parts]
        shares = [1.0] if len(parts) == 1 else _shares(masses)
        losses = [self.backward(part, share) for part, share in zip(parts, shares, strict=True)]
        self.precision.unscale(with_gradients(self._network))
        return BatchLoss(loss=losses[0] if len(losses) == 1 else torch.stack(losses).sum(), mass=sum(masses))

    def backward(self, part: Rows, share: float = 1.0) -> Tensor:
        """Add the gradients of some rows, times their share of a step. Returns their loss, likewise."""
        rows = part.to(self.device)
        with self.precision.multiplying():
            loss = self.loss(self._network.scores(rows.numeric, rows.places, part.sizes), rows)
            if share != 1.0:
                loss = loss * share
            scale = self.precision.scale
            (loss if scale == 1.0 else loss * scale).backward()  # type: ignore[no-untyped-call]  # torch has no types here
        self.alive()
        return loss.detach()

    def scores(self, rows: Rows) -> Tensor:
        """Raw outputs for any number of rows, computed in chunks of a micro-batch."""
        return self._halving(lambda: self._scores(rows))

    def pieces(self, rows: Rows) -> list[Rows]:
        """The rows whose outputs are computed at once; groups stay whole where the network reads them."""
        count = max(max(self._batch_size, CHUNK_ROWS) // self.accumulation, 1)
        return rows.parts(-(-len(rows) // count)) if self._network.reads_groups else rows.chunks(count)

    def mean_loss(self, scores: Tensor, rows: Rows) -> float:
        """The loss of raw outputs for any number of rows, computed in parts."""
        return self._halving(lambda: self._mean_loss(scores, rows))

    def _mean_loss(self, scores: Tensor, rows: Rows) -> float:
        outputs = scores[0].numel() if self._network.has_members else 1
        parts = rows.parts(-(-len(rows) * outputs * self.accumulation // _ROWS_OF_LOSS))
        masses = [self._mass(part) for part in parts]
        split = torch.split(scores, [len(part) for part in parts])
        losses = [float(self.loss(some, part)) for some, part in zip(split, parts, strict=True)]
        return losses[0] if len(losses) == 1 else sum(map(mul, losses, _shares(masses)))

    def _scores(self, rows: Rows) -> Tensor:
        scores = []
        for piece in self.pieces(rows):
            numeric, places = piece.numeric.to(self.device), piece.places.to(self.device)
            scores.append(self._network.scores(numeric, places, piece.sizes))
            self.alive()
        return torch.cat(scores)

    def loss(self, scores: Tensor, rows: Rows) -> Tensor:
        """The loss of raw outputs for the rows that they belong to."""
        label = rows.label.to(self.device).contiguous()  # sums of rows that lie apart are rounded in another way
        weight = None if rows.weight is None else rows.weight.to(self.device).contiguous()
        if self._standardise:
            label = ((label.double() - self._network.label_mean) / self._network.label_scale).float()
        group = None
        if rows.sizes is not None:
            sizes = rows.sizes.to(self.device)
            numbers = torch.arange(len(sizes), device=self.device)
            group = torch.repeat_interleave(numbers, sizes, output_size=len(rows))  # without it, a GPU has to say
        return self._loss(scores, label, weight, group)


def _shares(masses: Sequence[float]) -> list[float]:
    """Each part's share of the whole mass; all 0 if no row counts: every loss is zero."""
    whole = sum(masses) or 1.0
    return [mass / whole for mass in masses]
