"""The optimizer of large tables of vectors: it touches only the rows that a step has read.

A change here violates the promise of the project when the cost of a step grows with the rows of a table.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from tasks.train.startup import WithoutCompiler


class RowsAdam(WithoutCompiler):
    """RMSprop on the rows that have a gradient. The second moment of a number begins with the square of its first one.

    So a number's first update is that of Adam in its first step, whenever its row is seen first: Adam's own correction
    would let one that is seen late move thirty times as far. Without a first moment, a row moves by its whole gradient
    in the step that has it. With one, a rare row would move by a tenth of that, as the moment is not spent in the steps
    that do not have the row. torch's SparseAdam reads and writes the first moment all the same: half more memory, and
    half more time of a step with ten million rows.
    """

    def __init__(self, params: Iterable[Tensor], *, lr: float, eps: float, factor: float, beta: float = 0.999) -> None:
        """eps: added to the root of the second moment. factor: of the rate, for the code that sets it. beta: decay."""
        super().__init__(params, {"lr": lr, "eps": eps, "factor": factor, "beta": beta})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update the rows that have a gradient. closure: not evaluated."""
        assert closure is None
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group)

    def _update(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state["square"] = torch.zeros_like(weight)
        gradient = (gradient if gradient.is_sparse else gradient.to_sparse(1)).coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        before, now = state["square"][rows], values.square()
        square = torch.where(before == 0, now, before.lerp(now, 1 - group["beta"]))
        state["square"].index_copy_(0, rows, square)
        update = values / square.sqrt_().add_(group["eps"])
        weight.index_copy_(0, rows, weight[rows].sub_(update, alpha=group["lr"]))
