"""How the steps of a training are computed: noted while it runs, and repeated where a training is repeated to the bit.

A change here violates the promise of the project when the same steps, computed in the same segments on a CPU, end with
other bits.
"""

from collections.abc import Callable, Sequence

import torch

from tasks.train.computation import Computation
from tasks.train.settings import Segment
from tasks.train.shards import Shards
from tasks.train.state import TrainState


class Segments:
    """repeated: those of the training to repeat, the first ones first; empty if it is none."""

    def __init__(
        self,
        state: TrainState,
        computation: Computation,
        shards: Shards,
        repeated: Sequence[Segment],
        *,
        warn: Callable[[str], None],
    ) -> None:
        self._state, self._computation, self._shards, self._warn = state, computation, shards, warn
        self._left = list(repeated)
        computation.halved = self._halved

    def begin(self) -> None:
        """Note how the next steps are computed."""
        self._state.begin_segment(
            Segment(
                begin=self._state.step,
                accumulation=self._computation.accumulation,
                device=self._computation.device.type,
                threads=torch.get_num_threads(),
                shards=self._shards.count,
                precision=self._computation.precision.name,
                tables="sharded" if self._state.optimizer.by_rows else "whole",
            )
        )

    def resume(self, *, halved_by_itself: bool) -> None:
        """After a checkpoint was loaded, before `begin`.

        halved_by_itself: whether it is of this training, so that more micro-batches than it began with are those that
        it took to fit.
        """
        if not self._state.segments:
            return
        last = self._state.segments[-1]
        if halved_by_itself:
            self._computation.accumulation = max(self._computation.accumulation, last.accumulation)
        self._shards.resume(last.shards)

    def repeat(self) -> None:
        """Before a step: compute it as the training did that is repeated."""
        while self._left and self._left[0].begin <= self._state.step:
            segment = self._left.pop(0)
            self._computation.accumulation, self._shards.count = segment.accumulation, segment.shards
            self._computation.precision.name = segment.precision
            self._state.optimizer.by_rows = segment.tables == "sharded"
            torch.set_num_threads(segment.threads)
            self.begin()

    def _halved(self) -> None:
        self.begin()
        self._warn(
            f"memory ran out after step {self._state.step:,}: what did not fit is computed again, and from here on a"
            f" step is computed in {self._computation.accumulation} micro-batches"
        )
