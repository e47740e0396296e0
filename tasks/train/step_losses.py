"""The losses of steps, added up and checked every now and then: to read one makes the host wait.

For a line of the log they are copied while a GPU goes on with the next steps, and read when they are there. Before a
state is evaluated or saved the host waits for them.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Figures of some steps, on their way to the host, and whether the weights after step `completed` are finite.

    event: passed when they are there; None where the copies have been waited for.
    """

    steps: Sequence[_Step]
    completed: int
    losses: Tensor
    norms: Tensor
    are_finite: Tensor
    event: torch.cuda.Event | None

    @classmethod
    def of(cls, steps: Sequence[_Step], completed: int, weights: Iterable[Tensor]) -> "_Asked":
        sums = [weight.detach().sum() for weight in weights]
        finite = torch.isfinite(torch.stack(sums)).all() if sums else torch.tensor(data=True)
        return cls(
            steps=steps,
            completed=completed,
            losses=_to_host(torch.stack([step.result.loss for step in steps]).double()) if steps else torch.empty(0),
            norms=_to_host(torch.stack([step.norm for step in steps]).double()) if steps else torch.empty(0),
            are_finite=_to_host(finite),
            event=torch.cuda.current_stream(finite.device).record_event() if finite.is_cuda else None,
        )

    @property
    def is_there(self) -> bool:
        return self.event is None or bool(self.event.query())  # type: ignore[no-untyped-call]  # torch has no types here

    def wait(self) -> None:
        if self.event is not None:
            self.event.synchronize()


class StepLosses:
    """Collects the losses of steps, and adds them to those since the last evaluation."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._asked: _Asked | None = None

    def add(
        self, result: BatchLoss, norm: Tensor, reader: Reader, batch: NDArray[int64], *, taken: bool = True
    ) -> None:
        """Collect a step. norm: of its gradient, before it is clipped. batch: its chunks in the reader.

        taken: whether the weights were updated; the norm of one that was not is infinite in the trace.
        """
        self._steps.append(_Step(result=result, norm=norm, taken=taken, reader=reader, batch=batch))

    def ask(self, completed: int, weights: Iterable[Tensor]) -> None:
        """Have what was collected copied to the host; nothing while that is under way. completed: steps.

        weights: those to check. A gradient that is finite and clipped cannot make a weight infinite in a few steps, so
        not all of them have to be checked each time; all have to be before they are saved.
        """
        if self._asked is None:
            self._asked = _Asked.of(self._steps, completed, weights)
            self._steps = []

    def take(self, state: TrainState) -> bool:
        """Add what was asked for, if it is there, to the state and to its trace. Returns whether it was.

        Raises NotFinite, naming the first bad step.
        """
        if self._asked is None or not self._asked.is_there:
            return False
        asked, self._asked = self._asked, None
        _add(asked, state)
        return True

    def flush(self, state: TrainState, weights: Iterable[Tensor]) -> None:
        """Add all that was collected. weights: all. Raises NotFinite, naming the first bad step."""
        self._wait(state)  # for what was asked before
        self.ask(state.step, weights)
        self._wait(state)

    def _wait(self, state: TrainState) -> None:
        if self._asked is not None:
            self._asked.wait()
            self.take(state)


def _add(asked: _Asked, state: TrainState) -> None:
    first = asked.completed - len(asked.steps) + 1
    figures = zip(asked.losses.tolist(), asked.norms.tolist(), asked.steps, strict=True)
    for number, (loss, norm, step) in enumerate(figures):
        where = f"at step {first + number:,}"
        if not math.isfinite(loss):
            raise NotFinite(f"the loss is {loss} {where}", rows=step.rows)
        if step.taken and not math.isfinite(norm):  # a finite loss can have a gradient that is not
            raise NotFinite(f"the gradient is {norm} {where}", rows=step.rows)
        state.loss += loss * step.result.mass  # one by one: the sum must not depend on the flushes
        state.mass += step.result.mass
        state.trace.extend((loss, norm if step.taken else math.inf))
    if not bool(asked.are_finite):
        raise NotFinite(f"a weight is not finite after step {asked.completed:,}")


def _to_host(tensor: Tensor) -> Tensor:
    """Without a wait for a GPU, into pinned memory."""
    return tensor.to("cpu", non_blocking=tensor.is_cuda)
