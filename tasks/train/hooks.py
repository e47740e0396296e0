"""What the training loop calls of the stage around it."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from tasks.train.data import Rows
from tasks.train.probe import Measured
from tasks.train.progress import ProgressHook
from tasks.train.settings import Segment


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the loop calls.

    progress: receives the progress lines. warn: receives warnings. begun: receives the step of the checkpoint that
    training goes on from, or None, and how steps are computed up to there and from there on. stopping: returns whether
    there is a notice to stop. metric: the valid metric of (rows, final scores), None where it has no value. finish:
    turns raw outputs into final scores. measured: receives how micro-batches were chosen.
    """

    progress: ProgressHook
    warn: Callable[[str], None]
    begun: Callable[[int | None, tuple[Segment, ...]], None]
    stopping: Callable[[], bool]
    metric: Callable[[Rows, Tensor], float | None]
    finish: Callable[[Tensor], Tensor]
    measured: Callable[[Measured], None] = lambda _measured: None
