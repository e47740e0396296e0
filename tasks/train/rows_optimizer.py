"""The optimizer of large tables of vectors: it touches only the rows that a step has read.

A change here violates the promise of the project when the cost of a step grows with the rows of a table.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class RowsAdam(Optimizer):
    """Adam without a first moment, on gradients that are coalesced sparse tensors: RMSprop with Adam's correction.

    Without a first moment, a row moves by its whole gradient in the step that has it. Adam with one would move a rare
    row by a tenth of that, as the moment is not spent in the steps that do not have the row. torch's SparseAdam reads
    and writes the first moment all the same: half more memory, and half more time of a step with ten million rows.
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
            state["step"], state["square"] = torch.tensor(0.0, dtype=torch.float64), torch.zeros_like(weight)
        state["step"] += 1
        rows, values = gradient.indices()[0], gradient.values()
        square = state["square"][rows].mul_(group["beta"]).addcmul_(values, values, value=1 - group["beta"])
        state["square"].index_copy_(0, rows, square)
        correction = 1 - group["beta"] ** float(state["step"])
        update = values / square.div_(correction).sqrt_().add_(group["eps"])
        weight.index_copy_(0, rows, weight[rows].sub_(update, alpha=group["lr"]))
