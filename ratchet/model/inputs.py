"""The first layers of a network: what numbers and categories become before the body gets them."""

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from ratchet.model.description import CategoricalColumn

_LARGEST = torch.finfo(torch.float32).max
_SPREAD = 0.05
"""Standard deviation of the vectors at the start."""


class Numbers(nn.Module):
    """A vector for each number, from its place among the numbers of the training days.

    Piecewise linear encoding, then a linear layer and ReLU for each column (Gorishniy et al. 2022, "On embeddings for
    numerical features in tabular deep learning", PLE-LR). Buffers, float32 [numeric, bins]: start of each bin, and one
    over its width, 0 where a column has fewer bins.
    """

    start: Tensor
    inverse: Tensor

    def __init__(self, columns: int, bins: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("start", torch.zeros(columns, bins))
        self.register_buffer("inverse", torch.zeros(columns, bins))
        self.columns = PerColumn(columns, bins, dimension)

    def fit(self, edges: tuple[Tensor, ...]) -> None:
        """Take the ends of the bins of each column, on the standardised scale, ascending."""
        for column, ends in enumerate(edges):
            count = max(len(ends) - 1, 0)
            self.start[column, :count] = ends[:-1]
            self.inverse[column, :count] = (1 / ends.diff()).clamp(max=_LARGEST)  # infinity times 0 is no number

    def forward(self, standard: Tensor) -> Tensor:
        """Standardised numbers [rows, numeric], NaN for missing -> [rows, numeric * dimension].

        A bin is 0 below it, 1 above it and between these in it; all are 0 for a missing value.
        """
        filled = ((standard.unsqueeze(2) - self.start) * self.inverse).clamp(0.0, 1.0)
        out: Tensor = self.columns(torch.where(torch.isnan(standard).unsqueeze(2), 0.0, filled))
        return torch.relu(out).flatten(1)


class PerColumn(nn.Module):
    """A linear layer for each column: [rows, columns, inputs] -> [rows, columns, outputs]."""

    def __init__(self, columns: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(columns, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(columns, outputs).uniform_(-bound, bound))

    def forward(self, values: Tensor) -> Tensor:
        """One product for each column."""
        return torch.baddbmm(self.bias.unsqueeze(1), values.transpose(0, 1), self.weight).transpose(0, 1)


class Embeddings(nn.Module):
    """A learned vector for each category. Columns whose vectors have the same length share a table.

    The first row of a column is for what it does not know. In training a share of all categories counts as that, so
    that its vector is trained too: `mask` draws which.
    """

    first: Tensor

    def __init__(self, columns: Sequence[CategoricalColumn], masked: float) -> None:
        super().__init__()
        self._masked = masked
        rows = [column.vocabulary + 1 for column in columns]
        first = list(accumulate(rows, initial=0))[:-1]
        self.register_buffer("first", torch.tensor(first, dtype=torch.int64), persistent=False)
        self.tables = nn.ModuleDict()
        for dimension in sorted({column.dimension for column in columns}):
            members = [place for place, column in enumerate(columns) if column.dimension == dimension]
            table = nn.Embedding(sum(rows[place] for place in members), dimension)
            nn.init.normal_(table.weight, std=_SPREAD)
            begin = torch.tensor(list(accumulate((rows[place] for place in members), initial=0))[:-1])
            with torch.no_grad():  # where training has no unknown category, a new one scores as the mean of all
                table.weight[begin] = 0.0
            self.tables[str(dimension)] = table
            self.register_buffer(f"columns_{dimension}", torch.tensor(members), persistent=False)
            shift = torch.tensor([first[place] for place in members]) - begin
            self.register_buffer(f"shift_{dimension}", shift, persistent=False)
        self.register_load_state_dict_pre_hook(_name_table)  # type: ignore[no-untyped-call]  # torch has no types here

    def mask(self, places: Tensor) -> Tensor:
        """`Preprocess.places`, with a share of them as what is not known while the network trains."""
        if not self.training or not self._masked:
            return places
        unknown = torch.rand(places.shape, device=places.device) < self._masked
        return torch.where(unknown, self.first, places)

    def forward(self, places: Tensor) -> Tensor:
        """`Preprocess.places`, int32 [rows, categorical] -> [rows, all dimensions], the shortest vectors first."""
        found = [
            table(places.index_select(1, getattr(self, f"columns_{name}")) - getattr(self, f"shift_{name}")).flatten(1)
            for name, table in self.tables.items()
        ]
        return torch.cat(found, dim=1) if found else places.new_zeros((len(places), 0), dtype=torch.float32)


def _name_table(embeddings: Embeddings, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """A model of before has one table, without a name."""
    table = state.pop(f"{prefix}weight", None)
    if table is not None and len(embeddings.tables) == 1:
        state[f"{prefix}tables.{table.shape[1]}.weight"] = table
