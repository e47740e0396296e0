"""A step in shards: parts of its batch whose gradients are added in one order, whichever rank computes which.

Each shard has random numbers of its own, and a sum has the order of a binary tree over the shards. So a training in 4
shards ends with the same bits on 1, 2 and 4 ranks, on a CPU, with as many threads a rank.

A change here violates the promise of the project when the bits of a step in shards depend on the number of ranks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy import int64
from numpy.typing import NDArray
from torch import Tensor, nn

from ratchet.model.networks import Network
from tasks.train.computation import BatchLoss, Computation
from tasks.train.data import Rows
from tasks.train.ranks import Ranks
from tasks.train.row_tables import fetch, row_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Of all ranks. chunks: of rows. read: of some of them. ahead: begins to read the first ones of the next batch."""

    chunks: NDArray[int64]
    read: Callable[[NDArray[int64]], Rows]
    ahead: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStep:
    """A step of all ranks; the gradients are in the parameters. rows: of the whole batch.

    stop: whether a rank received a notice to stop. save: whether the first rank wants this step saved.
    """

    result: BatchLoss
    rows: int
    stop: bool
    save: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sum:
    """Of some shards. tensors: gradients, each times the shard's mass; then the loss, likewise; then the buffers.

    used: shards that have rows.
    """

    tensors: list[Tensor]
    mass: float
    rows: int
    used: int

    def __add__(self, other: "_Sum") -> "_Sum":
        sums = [
            (one + two).coalesce() if one.is_sparse else one.add_(two)
            for one, two in zip(self.tensors, other.tensors, strict=True)
        ]
        return _Sum(tensors=sums, mass=self.mass + other.mass, rows=self.rows + other.rows, used=self.used + other.used)


class Shards:
    """Computes steps together with the other ranks. count: the shards of a step, a power of two; 1: the whole batch."""

    def __init__(
        self, network: Network, computation: Computation, ranks: Ranks, *, count: int | None, seed: int
    ) -> None:
        """count: None for one for each rank."""
        self.count = count or ranks.size
        self._is_free = count is None
        self._network, self._computation, self._ranks, self._seed = network, computation, ranks, seed
        self._parameters = [weight for weight in network.parameters() if weight.requires_grad]
        # Such as those of a batch norm: the mean over the shards. Whole numbers are those of the first shard.
        self._buffers = [each for each in network.body.buffers() if _has_mean(each) or each.dtype == torch.int64]
        tables = [each for each in network.modules() if isinstance(each, nn.Embedding) and each.sparse]
        self._sparse = {id(table.weight) for table in tables}
        self._by_row = {id(table.weight): table for table in row_tables(network)}
        computation.alive = ranks.heartbeat.beat

    @property
    def first(self) -> slice:
        """The chunks of a batch that this rank reads first."""
        return slice(self._own(self.count)[0], None, self.count)

    def resume(self, count: int) -> None:
        """Go on in the shards of a training that had `count`, where the ranks allow it."""
        if self._is_free:
            self.count = max(self.count, count)

    def add_gradients(self, batch: Batch, step: int, *, stop: bool, save: bool = False) -> SharedStep:
        """Compute a step's gradients. stop, save: whether this rank received a notice to stop, and wants a checkpoint.

        All ranks save at one step: the first one says when.
        """
        if self.count == 1:
            rows = batch.read(batch.chunks)
            self._fetch(rows)
            batch.ahead()
            result = self._computation.compute_step(rows)
            for table in self._by_row.values():
                table.weight.grad = table.sum_at_owners(table.take_gradient())
            return SharedStep(result=result, rows=len(rows), stop=stop, save=save)
        begin = [buffer.clone() for buffer in self._buffers]
        before = self._computation.accumulation
        while True:
            total = self._tree(batch, step, self._own(self.count), begin)
            tensors = self._sum(total.tensors)
            accumulations = [0] * self._ranks.size
            accumulations[self._ranks.rank] = self._computation.accumulation
            wanted = float(save and self._ranks.is_first)
            figures = [total.mass, total.rows, total.used, float(stop), wanted, *accumulations]
            (shared,) = self._ranks.sum([torch.tensor(figures, dtype=torch.float64)])
            mass, rows, used, stops, saves, *accumulations = shared.tolist()
            most = int(max(accumulations))
            if most == before:
                break
            self._computation.halve_to(most)  # a shard ran out of memory: all are computed again, alike
            before = most
        torch.manual_seed(_seed_of(self._seed, step, self.count))  # whatever this rank computed last
        whole = mass or 1.0
        gradients, loss, buffers = self._split(tensors)
        for weight, gradient in zip(self._parameters, gradients, strict=True):
            weight.grad = gradient / whole
        with torch.no_grad():
            for buffer, value in zip(self._buffers, buffers, strict=True):
                buffer.copy_(value / used if _has_mean(buffer) else value)
        result = BatchLoss(loss=loss / whole, mass=mass)
        return SharedStep(result=result, rows=int(rows), stop=stops > 0, save=saves > 0)

    def scores(self, rows: Rows) -> Tensor:
        """Raw outputs for any number of rows: of each rank those of some parts."""
        if self.count == 1:
            return self._scores([rows])[0]
        parts = rows.parts(self.count)
        own = [number for number in range(len(parts)) if number % self._ranks.size == self._ranks.rank]
        some = own or [0]
        found = dict(zip(some, self._scores([parts[number] for number in some]), strict=True))
        like = next(iter(found.values()))
        zeros = [like.new_zeros((len(part), *like.shape[1:])) for part in parts]
        (whole,) = self._ranks.sum(
            [torch.cat([found[each] if each in own else zeros[each] for each in range(len(parts))])]
        )
        return whole

    def share(self, values: Callable[[], tuple[float | None, ...]], count: int) -> tuple[float | None, ...]:
        """What the first rank computes: `count` numbers, None for what is not a number."""
        if self._ranks.size == 1:
            return values()
        numbers = values() if self._ranks.is_first else (0.0,) * count
        given = torch.tensor([np.nan if number is None else number for number in numbers], dtype=torch.float64)
        (shared,) = self._ranks.sum([given])
        return tuple(None if np.isnan(number) else number for number in shared.tolist())

    def _scores(self, parts: Sequence[Rows]) -> list[Tensor]:
        """Raw outputs of each part. With sharded tables all ranks fetch as often as the one with most to compute."""
        if not self._by_row:
            return [self._computation.scores(part) for part in parts]
        in_pieces = [self._computation.pieces(part) for part in parts]
        pieces = [piece for some in in_pieces for piece in some]
        found = list[Tensor]()
        for number in range(max(self._ranks.gather(len(pieces)))):
            own = pieces[number : number + 1]
            self._fetch(own[0] if own else None)
            found.extend(self._computation.scores(piece) for piece in own)
        scores = iter(found)
        return [torch.cat([next(scores) for _ in some]) for some in in_pieces]

    def _fetch(self, rows: Rows | None) -> None:
        """Get what rows need of sharded tables; all ranks call it alike."""
        if self._by_row:
            fetch(self._network, None if rows is None else rows.places)

    def _sum(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The sums over all ranks; of a sharded table, that of this rank's rows."""
        tables = {
            place: self._by_row[id(weight)]
            for place, weight in enumerate(self._parameters)
            if id(weight) in self._by_row
        }
        others = iter(self._ranks.sum([each for place, each in enumerate(tensors) if place not in tables]))
        return [
            tables[place].sum_at_owners(each) if place in tables else next(others) for place, each in enumerate(tensors)
        ]

    def _own(self, count: int) -> range:
        """The shards of this rank."""
        each = count // self._ranks.size
        return range(self._ranks.rank * each, (self._ranks.rank + 1) * each)

    def _tree(self, batch: Batch, step: int, shards: range, begin: Sequence[Tensor]) -> _Sum:
        if len(shards) == 1:
            return self._shard(batch, step, shards[0], begin)
        half = len(shards) // 2
        first = self._tree(batch, step, shards[:half], begin)
        return first + self._tree(batch, step, shards[half:], begin)

    def _shard(self, batch: Batch, step: int, shard: int, begin: Sequence[Tensor]) -> _Sum:
        chunks = batch.chunks[shard :: self.count]
        rows = batch.read(chunks) if len(chunks) else None
        self._fetch(rows)
        if shard == self._own(self.count)[-1]:
            batch.ahead()
        with torch.no_grad():
            for buffer, value in zip(self._buffers, begin, strict=True):
                buffer.copy_(value)
        if rows is None:
            empty = [self._gradient(weight) for weight in self._parameters]
            loss = torch.zeros((), device=self._computation.device)
            buffers = [torch.zeros_like(value) for value in begin]
            return _Sum(tensors=[*empty, loss, *buffers], mass=0.0, rows=0, used=0)
        torch.manual_seed(_seed_of(self._seed, step, shard))
        result = self._computation.add_gradients(rows)
        gradients = [self._gradient(weight) for weight in self._parameters]
        weighted = [gradient * result.mass for gradient in (*gradients, result.loss.float())]
        buffers = [
            buffer.clone() if shard == 0 or _has_mean(buffer) else torch.zeros_like(buffer) for buffer in self._buffers
        ]
        return _Sum(tensors=[*weighted, *buffers], mass=result.mass, rows=len(rows), used=1)

    def _gradient(self, weight: Tensor) -> Tensor:
        """Take the gradient from a parameter: zeros where a shard has not used it."""
        if id(weight) in self._by_row:
            return self._by_row[id(weight)].take_gradient()
        gradient, weight.grad = weight.grad, None
        if gradient is not None:
            return gradient.coalesce() if gradient.is_sparse else gradient
        if id(weight) not in self._sparse:
            return torch.zeros_like(weight)
        no_rows = torch.empty((1, 0), dtype=torch.int64, device=weight.device)
        values = weight.new_empty((0, *weight.shape[1:]))
        empty = torch.sparse_coo_tensor(no_rows, values, weight.shape, check_invariants=False)
        return empty.coalesce()

    def _split(self, tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], Tensor, Sequence[Tensor]]:
        count = len(self._parameters)
        return tensors[:count], tensors[count], tensors[count + 1 :]


def _has_mean(buffer: Tensor) -> bool:
    return buffer.is_floating_point() or buffer.is_complex()


def _seed_of(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
