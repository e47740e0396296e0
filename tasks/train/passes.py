"""Which rows a step reads: the training rows while the learning rate is level, and all rows while it falls.

The fall takes the validation days too: early stopping has used them, and they are the newest days. On the project's
sets that is worth one to two per cent, as much as a second training on all days (docs/adr/032).
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy import int64
from numpy.typing import NDArray

from ratchet.contracts.step_rows import CHUNK_ROWS
from tasks.train import curriculum
from tasks.train.data import Reader, Rows
from tasks.train.device_table import on_device
from tasks.train.schedule import Fall
from tasks.train.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a step is. epoch: of its reader, from 1, counted through both parts. step: of the epoch, from 0."""

    reader: Reader
    epoch: int
    step: int


class Passes:
    """The order of the batches of a whole training: a pure function of the seed, the step and the fall.

    both: the training rows and then those for validation. device: that of the network.
    """

    def __init__(self, train: Rows, both: Rows, settings: Settings, *, device: torch.device) -> None:
        def reader(rows: Rows) -> Reader:
            there = None if words is None else words[: len(rows)]
            return Reader(
                rows,
                batch_size=settings.batch_size,
                seed=settings.seed,
                chunk_rows=CHUNK_ROWS if settings.sampling is None else curriculum.CHUNK_ROWS,
                device=device,
                on_device=there,
                sampling=settings.sampling,
            )

        words = on_device(both.table, device)
        self.level = reader(train)
        self.falling = reader(both) if len(both) > len(train) else self.level
        self._batches: tuple[tuple[bool, int], list[NDArray[int64]]] = ((False, 0), [])

    def position(self, step: int, fall: Fall) -> Position:
        """The position of step `step` of the whole training, from 0."""
        if step < fall.begin:
            epoch, inside = divmod(step, self.level.steps)
            return Position(reader=self.level, epoch=epoch + 1, step=inside)
        before = -(-fall.level // self.level.steps)
        epoch, inside = divmod(step - fall.begin, self.falling.steps)
        return Position(reader=self.falling, epoch=before + epoch + 1, step=inside)

    def batch(self, position: Position) -> NDArray[int64]:
        """The chunks of a step."""
        key = (position.reader is self.level, position.epoch)
        if self._batches[0] != key:
            self._batches = (key, position.reader.epoch(position.epoch))
        return self._batches[1][position.step]

    def expect(self, step: int, fall: Fall, part: slice) -> None:
        """Read ahead a part of the rows of step `step`, from 0, and of those after it in its epoch."""
        if step >= fall.end:
            return
        position = self.position(step, fall)
        left = min(position.reader.steps - position.step, fall.end - step, position.reader.ahead)
        if step < fall.begin:
            left = min(left, fall.begin - step)
        self.batch(position)  # of the epoch
        position.reader.expect([each[part] for each in self._batches[1][position.step : position.step + left]])

    def epochs(self, step: int, fall: Fall) -> float:
        """Passes over the rows after `step` completed steps."""
        level = min(step, fall.begin)
        return level / self.level.steps + (step - level) / self.falling.steps

    def next_evaluation(self, step: int, fall: Fall, evaluations: int) -> int:
        """The completed steps at the next evaluation: of an epoch `evaluations`, and at the end of each part."""
        position = self.position(step, fall)
        steps = position.reader.steps
        ends = -(-np.arange(1, evaluations + 1) * steps // evaluations)
        inside = int(ends[ends > position.step][0])
        return min(step - position.step + inside, fall.begin if step < fall.begin else fall.end)
