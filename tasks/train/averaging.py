"""The exponential moving average of the weights (EMA): it is validated and shipped in place of the weights themselves.

After update t, average = d * average + (1 - d) * weight, where d is min(decay, (1 + t) / (10 + t)): at first it forgets
soon, as in TensorFlow's ExponentialMovingAverage.

Of a large table only the rows of a step change. A row that stays as it is for some updates has, exactly,

    average = weight + (product of their d) * (average - weight)

so it is brought up to date when it is met again, and before the average is read. A step costs no more for a table
with more rows.

A change here violates the promise of the project when the average of a table differs, by more than rounding, from one
of all rows in each step, or when a resumed training has another average to the bit on a CPU.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ratchet.model.transfer import to_device

_ROWS = 1 << 18
"""Rows of a table that are brought up to date at once, before the average is read."""


class Average:
    """layers: weights that change in each step. tables: those of which some rows do. decay: None for no average."""

    def __init__(
        self, layers: Sequence[Tensor] = (), tables: Sequence[Tensor] = (), *, decay: float | None = None
    ) -> None:
        self._decay = decay
        self._layers = list(layers) if decay is not None else []
        self._tables = list(tables) if decay is not None else []
        self._of_layers, self._of_tables = list[Tensor](), list[Tensor]()
        self._seen = list[Tensor]()  # of each row of a table: the updates after which its average was right
        self._logs = torch.empty(0)  # of the products of the first d
        self.updates = 0

    def restart(self) -> None:
        """Begin with the weights as they are."""
        self._of_layers = [weight.detach().clone() for weight in self._layers]
        self._of_tables = [weight.detach().clone() for weight in self._tables]
        self._seen = [torch.zeros(len(table), dtype=torch.int32, device=table.device) for table in self._tables]
        self.updates = 0

    @torch.no_grad()
    def follow(self, update: Callable[[], None]) -> None:
        """Update the weights, and the average by them."""
        rows = [_rows(table) for table in self._tables]
        for number, some in enumerate(rows):
            self._catch_up(number, some)
        update()
        if self._decay is None:
            return
        self.updates += 1
        share = 1 - self._d(self.updates)
        if self._layers:
            torch._foreach_lerp_(self._of_layers, self._layers, share)
        for table, average, seen, some in zip(self._tables, self._of_tables, self._seen, rows, strict=True):
            average.index_copy_(0, some, average[some].lerp_(table[some], share))
            seen[some] = self.updates

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Meanwhile the weights of the network are the average."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def keep(self) -> None:
        """Leave the average in the network, at the end of a training."""
        self._exchange()

    def begin(self) -> None:
        """Go on with the average as the weights, and begin another average there."""
        self.keep()
        self.restart()

    def tensors(self) -> dict[str, Tensor]:
        """The state, by name."""
        parts = {"layers": self._of_layers, "tables": self._of_tables, "seen": self._seen}
        return {f"{name}.{number}": tensor for name, part in parts.items() for number, tensor in enumerate(part)}

    def load(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Restore what `tensors` returned."""
        self.restart()
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])
        self.updates = updates

    @torch.no_grad()
    def _exchange(self) -> None:
        """Swap weights and averages; nothing is copied."""
        for number, table in enumerate(self._tables):
            for some in torch.split(torch.arange(len(table), device=table.device), _ROWS):
                self._catch_up(number, some)
        for weights, averages in ((self._layers, self._of_layers), (self._tables, self._of_tables)):
            for number, weight in enumerate(weights):
                weight.data, averages[number] = averages[number], weight.data

    def _catch_up(self, number: int, rows: Tensor) -> None:
        """Bring rows of a table's average up to date."""
        table, average, seen = self._tables[number], self._of_tables[number], self._seen[number]
        logs = self._logs_of(self.updates, table.device)
        left = torch.exp(logs[self.updates] - logs[seen[rows].long()]).to(table.dtype).unsqueeze(1)
        weights = table[rows]
        average.index_copy_(0, rows, weights + left * (average[rows] - weights))
        seen[rows] = self.updates

    def _logs_of(self, updates: int, device: torch.device) -> Tensor:
        """The logarithms of the products of the first 0, 1, ... d, at least up to `updates`."""
        if len(self._logs) <= updates:
            each = torch.arange(1, 2 * updates + 1, dtype=torch.float64)
            d = ((1 + each) / (10 + each)).clamp(max=self._decay)
            self._logs = to_device(torch.cat([torch.zeros(1, dtype=torch.float64), d.log().cumsum(0)]), device)
        return self._logs

    def _d(self, update: int) -> float:
        assert self._decay is not None
        return min(self._decay, (1 + update) / (10 + update))


def _rows(table: Tensor) -> Tensor:
    """The rows of a table that have a gradient."""
    gradient = table.grad
    if gradient is None:
        return torch.empty(0, dtype=torch.int64, device=table.device)
    return (gradient if gradient.is_sparse else gradient.to_sparse(1)).coalesce().indices()[0]
