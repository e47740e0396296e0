"""The losses of steps, added up and checked every now and then: to read one makes the host wait.

A change here violates the promise of the project when the sum depends on the times of the flushes, or when a state
whose loss, gradient or weights are not finite can be saved.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from numpy import int64
from numpy.typing import NDArray
from torch import Tensor

from tasks.train.computation import BatchLoss
from tasks.train.data import Reader
from tasks.train.state import TrainState


class NotFinite(ArithmeticError):
    """A loss, a gradient, a weight or a validation score is infinite or not a number.

    rows: the places of the rows that it was computed from, where the rows for validation follow those for training;
    None if they are not known.
    """

    def __init__(self, message: str, *, rows: NDArray[int64] | None = None) -> None:
        super().__init__(message)
        self.rows = rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    result: BatchLoss
    norm: Tensor
    taken: bool
    reader: Reader
    batch: NDArray[int64]

    @property
    def rows(self) -> NDArray[int64]:
        return self.reader.row_numbers(self.batch)


class StepLosses:
    """Collects the losses of steps, and adds them to those since the last evaluation."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []

    def add(
        self, result: BatchLoss, norm: Tensor, reader: Reader, batch: NDArray[int64], *, taken: bool = True
    ) -> None:
        """Collect a step. norm: of its gradient, before it is clipped. batch: its chunks in the reader.

        taken: whether the weights were updated; the norm of one that was not is infinite in the trace.
        """
        self._steps.append(_Step(result=result, norm=norm, taken=taken, reader=reader, batch=batch))

    def flush(self, state: TrainState, weights: Iterable[Tensor]) -> None:
        """Add what was collected to the state and to its trace. Raises NotFinite, naming the first bad step.

        weights: those to check. A gradient that is finite and clipped cannot make a weight infinite in a few steps, so
        not all of them have to be checked each time; all have to be before they are saved.
        """
        steps, self._steps = self._steps, []
        if steps:
            self._add(steps, state)
        sums = [weight.detach().sum() for weight in weights]
        if sums and not bool(torch.isfinite(torch.stack(sums)).all()):
            raise NotFinite(f"a weight is not finite after step {state.step:,}")

    def _add(self, steps: Sequence[_Step], state: TrainState) -> None:
        losses = torch.stack([step.result.loss for step in steps]).double().cpu()
        norms = torch.stack([step.norm for step in steps]).double().cpu()
        first = state.step - len(steps) + 1
        for number, (loss, norm, step) in enumerate(zip(losses.tolist(), norms.tolist(), steps, strict=True)):
            where = f"at step {first + number:,}"
            if not math.isfinite(loss):
                raise NotFinite(f"the loss is {loss} {where}", rows=step.rows)
            if step.taken and not math.isfinite(norm):  # a finite loss can have a gradient that is not
                raise NotFinite(f"the gradient is {norm} {where}", rows=step.rows)
            state.loss += loss * step.result.mass  # one by one: the sum must not depend on the flushes
            state.mass += step.result.mass
            state.trace.extend((loss, norm if step.taken else math.inf))
