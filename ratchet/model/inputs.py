"""The first layers of a network: what numbers and categories become before the body gets them."""

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from ratchet.model.description import CategoricalColumn, ListColumn
from ratchet.model.lists import NOTHING, own

_LARGEST = torch.finfo(torch.float32).max
_PARTS = 16
"""Of the rows of a step on a GPU, where their number can be divided by it."""
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
        if values.is_cuda and self.training:
            return self._in_parts(values)
        return torch.baddbmm(self.bias.unsqueeze(1), values.transpose(0, 1), self.weight).transpose(0, 1)

    def _in_parts(self, values: Tensor) -> Tensor:
        """The same by products of parts of the rows: a GPU takes long to sum many rows into a small gradient."""
        parts, columns = math.gcd(len(values), _PARTS), values.shape[1]
        split = values.reshape(parts, -1, *values.shape[1:]).transpose(1, 2).flatten(0, 1)
        bias, weight = (each.expand(parts, *each.shape).flatten(0, 1) for each in (self.bias.unsqueeze(1), self.weight))
        made = torch.baddbmm(bias, split, weight)
        return made.view(parts, columns, *made.shape[1:]).transpose(1, 2).flatten(0, 1)


class Embeddings(nn.Module):
    """A learned vector for each category. Columns whose vectors have the same length share a table.

    The first row of a column is for what it does not know. In training a share of all categories counts as that, so
    that its vector is trained too: `mask` draws which. A table that lists use ends with a row of zeros for no value,
    which never changes.
    """

    first: Tensor

    def __init__(self, columns: Sequence[CategoricalColumn], masked: float, lists: Sequence[ListColumn] = ()) -> None:
        super().__init__()
        self._masked = masked
        tables: list[CategoricalColumn | ListColumn] = [*columns, *own(lists)]
        rows = [column.vocabulary + 1 for column in tables]
        begins = list(accumulate(rows, initial=0))[:-1]
        table_of = {column.name: place for place, column in enumerate(tables)}
        width = [1] * len(columns) + [one.length for one in lists]
        used = [*range(len(columns)), *(table_of[one.share or one.name] for one in lists)]
        of_id = [place for place, count in zip(used, width, strict=True) for _ in range(count)]
        first = [begins[place] for place in of_id]
        self.register_buffer("first", torch.tensor(first, dtype=torch.int64), persistent=False)
        starts = list(accumulate(width, initial=0))[len(columns) :]
        self._lengths = [one.length for one in lists]
        self.tables, self._of_table, self._nothing = nn.ModuleDict(), dict[str, list[int]](), dict[str, int]()
        for dimension in sorted({column.dimension for column in tables}):
            members = [place for place, column in enumerate(tables) if column.dimension == dimension]
            of_lists = [place for place, one in enumerate(lists) if one.dimension == dimension]
            size = sum(rows[place] for place in members)
            table = nn.Embedding(size + bool(of_lists), dimension, padding_idx=size if of_lists else None)
            nn.init.normal_(table.weight, std=_SPREAD)
            begin = list(accumulate((rows[place] for place in members), initial=0))[:-1]
            with torch.no_grad():  # where training has no unknown category, a new one scores as the mean of all
                table.weight[torch.tensor(begin)] = 0.0
                table.weight[size:] = 0.0
            name = str(dimension)
            self.tables[name], self._of_table[name], self._nothing[name] = table, of_lists, size
            ids = [place for place in members if place < len(columns)]
            ids += [place for one in of_lists for place in range(starts[one], starts[one] + lists[one].length)]
            shift = torch.tensor(first)[ids] - torch.tensor([begin[members.index(of_id[place])] for place in ids])
            self.register_buffer(f"columns_{name}", torch.tensor(ids, dtype=torch.int64), persistent=False)
            self.register_buffer(f"shift_{name}", shift, persistent=False)
        self.register_load_state_dict_pre_hook(_name_table)  # type: ignore[no-untyped-call]  # torch has no types here

    def mask(self, places: Tensor) -> Tensor:
        """`Preprocess.places`, with a share of them as what is not known while the network trains."""
        if not self.training or not self._masked:
            return places
        unknown = torch.rand(places.shape, device=places.device) < self._masked
        masked = torch.where(unknown, self.first, places)
        return torch.where(places == NOTHING, places, masked) if self._lengths else masked

    def forward(self, places: Tensor) -> tuple[Tensor, list[Tensor]]:
        """`Preprocess.places`, int32 [rows, ids] -> vectors of the categories and, of each list, those of its values.

        Categories: [rows, all dimensions], the shortest vectors first. A list: [rows, length, dimension], zeros behind
        its end.
        """
        found, of_lists = list[Tensor](), dict[int, Tensor]()
        for name, table in self.tables.items():
            asked = places.index_select(1, getattr(self, f"columns_{name}"))
            rows = asked - getattr(self, f"shift_{name}")
            if rows.is_cuda and not table.sparse:
                rows = rows.int()  # to sort them for the gradient takes half the time
            if not self._of_table[name]:
                found.append(table(rows).flatten(1))
                continue
            lengths = [self._lengths[place] for place in self._of_table[name]]
            vectors = table(torch.where(asked == NOTHING, self._nothing[name], rows))
            one, *several = torch.split(vectors, [asked.shape[1] - sum(lengths), *lengths], dim=1)
            found.append(one.flatten(1))
            of_lists |= dict(zip(self._of_table[name], several, strict=True))
        none = places.new_zeros((len(places), 0), dtype=torch.float32)
        return torch.cat(found, dim=1) if found else none, [of_lists[place] for place in range(len(self._lengths))]


def _name_table(embeddings: Embeddings, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """A model of before has one table, without a name."""
    table = state.pop(f"{prefix}weight", None)
    if table is not None and len(embeddings.tables) == 1:
        state[f"{prefix}tables.{table.shape[1]}.weight"] = table
