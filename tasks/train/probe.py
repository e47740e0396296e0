"""How many micro-batches a step is computed in, by measurement: what fits into a GPU, or what is fastest.

Gradients of real rows are computed in several numbers of micro-batches, and forgotten. The step stays what it is.

A change here violates the promise of the project when a measurement changes weights, buffers, random numbers or the
optimizer, or when two ranks choose different numbers.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from ratchet.contracts.step_rows import CHUNK_ROWS, MAX_ACCUMULATION
from ratchet.runtime.user_code import lacks_memory
from tasks.train.buffers import Buffers
from tasks.train.computation import Computation
from tasks.train.data import Rows
from tasks.train.random_states import generator_states, restore_generators
from tasks.train.ranks import Ranks
from tasks.train.row_tables import forget_gradients

By = Literal["memory", "time"]
SHARE = 0.8
"""Of the free memory of a GPU, that a training may take."""
_FASTER = 1.05
"""How many times as fast another number has to be than the one that is used without a measurement."""
_ROUNDS, _LONGEST_S = 5, 3.0
"""How often each number is timed, and how long all of that takes at most, if each was timed twice."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """figures: seconds of a step, or shares of the limit of memory, for each number of micro-batches.

    Infinite: it did not fit, or was not tried as fewer rows did not.
    """

    by: By
    accumulation: int
    figures: dict[int, float]


class Probe:
    """Measures steps of a computation.

    peak: the most bytes that are in use during a call, None if it says that they did not fit. limit: of them. Both are
    those of the GPU by default.
    """

    def __init__(
        self,
        network: nn.Module,
        computation: Computation,
        ranks: Ranks,
        *,
        peak: Callable[[Callable[[], bool]], float | None] | None = None,
        limit: Callable[[], float] | None = None,
    ) -> None:
        self._network, self._computation, self._ranks = network, computation, ranks
        self._peak = peak or self._peak_of_gpu
        self._limit = limit or self._limit_of_gpu

    def measure(self, by: By, rows: Rows) -> Measured:
        """Try the number of the computation, twice it, and so on; the computation has the chosen one afterwards.

        rows: those of a step of this rank.
        """
        begin = self._computation.accumulation
        numbers = [begin]
        while 2 * numbers[-1] <= MAX_ACCUMULATION and len(rows) >= 2 * numbers[-1] * CHUNK_ROWS:
            numbers.append(2 * numbers[-1])
        (count,) = self._agreed([float(len(numbers))])  # ranks have a few rows more or less
        numbers = numbers[: int(count) // self._ranks.size]
        self._network.train()
        with self._unchanged():
            figures = self._seconds(numbers, rows) if by == "time" else self._bytes(numbers, rows)
        chosen = self._fastest(numbers, figures) if by == "time" else self._largest(numbers, figures)
        self._computation.accumulation = chosen
        return Measured(by=by, accumulation=chosen, figures=dict(zip(numbers, figures, strict=True)))

    def _seconds(self, numbers: Sequence[int], rows: Rows) -> list[float]:
        """The mean over the ranks of the fastest step."""
        found = [math.inf] * len(numbers)
        end = time.perf_counter() + _LONGEST_S
        for number in numbers:
            self._step(number, rows)  # the first one allocates
        for turn in range(_ROUNDS):
            for place, number in enumerate(numbers):
                begin = time.perf_counter()
                if self._step(number, rows):
                    found[place] = min(found[place], time.perf_counter() - begin)
            if turn and time.perf_counter() > end:
                break
        return [total / self._ranks.size for total in self._agreed(found)]

    def _fastest(self, numbers: Sequence[int], seconds: Sequence[float]) -> int:
        best = min(range(len(numbers)), key=lambda place: seconds[place])
        return numbers[best] if seconds[best] * _FASTER < seconds[0] else numbers[0]

    def _bytes(self, numbers: Sequence[int], rows: Rows) -> list[float]:
        """The share of the limit that each number takes, of the rank that takes most; the smallest parts first."""
        limit, found = self._limit(), [math.inf] * len(numbers)
        for place in reversed(range(len(numbers))):
            taken = self._peak(partial(self._step, numbers[place], rows))
            if taken is None or taken > limit:
                break
            found[place] = taken / limit
        return self._most(found)

    def _largest(self, numbers: Sequence[int], shares: Sequence[float]) -> int:
        """The fewest micro-batches that fit; the most there are if none does: a step that runs out takes more."""
        return next((number for number, share in zip(numbers, shares, strict=True) if share <= 1), numbers[-1])

    def _step(self, accumulation: int, rows: Rows) -> bool:
        """Compute gradients and forget them. Returns whether they fitted."""
        try:
            self._computation.compute(rows, accumulation)
        except (MemoryError, RuntimeError) as error:
            if not lacks_memory(error):
                raise
            return False
        finally:
            forget_gradients(self._network)
            if self._computation.device.type == "cuda":
                torch.cuda.synchronize(self._computation.device)
        return True

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Put back random numbers, buffers, and parameters without gradients."""
        states = generator_states()
        buffers = Buffers(self._network)
        kept = [(each, each.detach().clone()) for each in self._network.parameters() if not each.requires_grad]
        try:
            yield
        finally:
            with torch.no_grad():
                for each, before in kept:
                    each.copy_(before)
            buffers.restore()
            restore_generators(states)

    def _agreed(self, figures: Sequence[float]) -> list[float]:
        """The sum over all ranks of each figure."""
        (total,) = self._ranks.sum([torch.tensor(figures, dtype=torch.float64)])
        return [float(each) for each in total]

    def _most(self, figures: Sequence[float]) -> list[float]:
        """The largest of all ranks of each figure."""
        table = torch.zeros(self._ranks.size, len(figures), dtype=torch.float64)
        table[self._ranks.rank] = torch.tensor(figures, dtype=torch.float64)
        (all_ranks,) = self._ranks.sum([table])
        most: Tensor = all_ranks.amax(0)
        return [float(each) for each in most]

    def _peak_of_gpu(self, call: Callable[[], bool]) -> float | None:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self._computation.device)
        if not call():
            return None
        return float(torch.cuda.max_memory_allocated(self._computation.device))

    def _limit_of_gpu(self) -> float:
        """Less what comes later: two moments of each weight, and the best weights."""
        free, _ = torch.cuda.mem_get_info(self._computation.device)
        later = 3 * sum(weight.nbytes for weight in self._network.parameters())
        return SHARE * (free + torch.cuda.memory_reserved(self._computation.device)) - later
