"""What raw numbers and ids become before the layers: all that is fitted on the training days sits in buffers here."""

import math
from itertools import accumulate

import torch
from torch import Tensor, nn

from ratchet.model.description import CategoricalColumn, Description, ListColumn
from ratchet.model.hashing import PADDING
from ratchet.model.lists import NOTHING, own, weights_of

_FAR = 10.0
"""Standardised numbers are cut here, so that one wild value does not drown all others."""


class Preprocess(nn.Module):
    """Numbers standardised with a flag for missing ones; stable ids looked up in the vocabulary.

    Numbers and ids are those of `encoding.encode`: of columns, then of vectors and lists.
    Buffers: mean, scale float64 [numbers] of the transformed values of the training days, 0 and 1 of the weights of
    lists; flagged [numbers], whether a missing value has its flag; vocabulary [all values], the sorted ids that each
    categorical column knows, one column after the other, and then each list with vectors of its own; statistics
    float64, of each statistic of a category its value for what a column does not know, then for each id that it knows.
    """

    mean: Tensor
    scale: Tensor
    flagged: Tensor
    vocabulary: Tensor
    statistics: Tensor

    def __init__(self, description: Description) -> None:
        super().__init__()
        self.plain, self.vectors, self.lists = len(description.numeric), description.vectors, description.lists
        self.of_vectors = sum(column.dimension for column in self.vectors)
        count = self.plain + self.of_vectors + sum(column.length for column in self.lists if column.weights)
        tables: list[CategoricalColumn | ListColumn] = [*description.categorical, *own(self.lists)]
        self.sizes = [column.vocabulary for column in tables]
        table_of = {column.name: place for place, column in enumerate(tables)}
        in_lists = [table_of[column.share or column.name] for column in self.lists for _ in range(column.length)]
        self.tables = [*range(len(description.categorical)), *in_lists]
        """Of each id, the column whose vocabulary it is in."""
        logarithmic = [column.transform == "log1p" for column in description.numeric]
        self.logarithmic = [index for index, is_so in enumerate(logarithmic) if is_so]
        self.register_buffer("mean", torch.zeros(count, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(count, dtype=torch.float64))
        self.register_buffer("flagged", torch.ones(count, dtype=torch.bool))
        self.register_load_state_dict_pre_hook(_add_flags)  # type: ignore[no-untyped-call]  # torch has no types here
        self.register_buffer("vocabulary", torch.zeros(sum(self.sizes), dtype=torch.int64))
        names, self._statistics, length = [column.name for column in description.categorical], [], 0
        for column in (names.index(one.of) for one in description.numeric if one.of is not None):
            self._statistics.append((column, length - sum(self.sizes[:column]) - column))
            length += self.sizes[column] + 1
        statistics = torch.zeros(length, dtype=torch.float64)
        self.register_buffer("statistics", statistics, persistent=length > 0)

    @property
    def rows(self) -> int:
        """Rows of the embedding table: each column's values, and one for what it does not know."""
        return sum(self.sizes) + len(self.sizes)

    def with_statistics(self, numeric: Tensor, places: Tensor, statistics: Tensor | None = None) -> Tensor:
        """Beside numbers of rows, the statistics of their categories: the numbers that `standardise` takes.

        places: as `places` gives them. statistics: instead of the buffer, as where a row's own day does not count.
        """
        if not self._statistics:
            return numeric
        table = self.statistics if statistics is None else statistics
        found = [table[places[:, column].long() + shift].unsqueeze(1) for column, shift in self._statistics]
        return torch.cat([numeric.to(table.dtype), *found], dim=1)

    def standardise(self, numeric: Tensor) -> Tensor:
        """Numbers [rows, numeric] with NaN for missing -> float32, transformed, in deviations from the mean.

        NaN where a value is missing, or outside the domain of its transform. All of it is computed in float64, around
        the mean of the training days, so that large numbers that lie close together, such as times, stay apart.
        """
        values = numeric.to(self.mean.dtype, copy=True)
        for column in self.logarithmic:  # by itself: parts for threads would begin and end where its vectors do not
            values[:, column] = torch.log1p(values[:, column].contiguous())
        missing = ~torch.isfinite(values)
        values.sub_(self.mean).div_(self.scale)
        return values.masked_fill_(missing, torch.nan).float()

    def mask_statistics(self, standard: Tensor, places: Tensor, first: Tensor) -> Tensor:
        """What `standardise` made, with the statistics of what is not known where `places` say that a category is not.

        first: the place of each column for that.
        """
        if not self._statistics:
            return standard
        own = standard.shape[1] - len(self._statistics)
        unknown = self.standardise(self.with_statistics(standard.new_zeros(1, own), first.unsqueeze(0)))[:, own:]
        is_unknown = torch.stack([places[:, column] == first[column] for column, _ in self._statistics], dim=1)
        return torch.cat([standard[:, :own], torch.where(is_unknown, unknown, standard[:, own:])], dim=1)

    def value(self, standard: float, column: int) -> float:
        """The raw value of a numeric column that `standardise` maps to this number."""
        transformed = standard * float(self.scale[column]) + float(self.mean[column])
        return math.expm1(transformed) if column in self.logarithmic else transformed

    def compute_in(self, kind: torch.dtype) -> None:
        """Standardise in another precision. Models of before have float32 buffers, and score as they did in float32."""
        self.mean, self.scale = self.mean.to(kind), self.scale.to(kind)

    def numbers(self, standard: Tensor) -> Tensor:
        """What `standardise` makes -> float32 [rows, 2 * numeric]: cut at 10 deviations, then flags of the missing.

        A missing value in a column that was never missing in training scores as the mean: no weight of its flag was
        trained. Of vectors and lists, see `wide`.
        """
        scaled, missing = _cut(standard[:, : self.plain])
        return torch.cat([scaled, (missing & self.flagged[: self.plain]).to(standard.dtype)], dim=1)

    def wide(self, standard: Tensor) -> list[Tensor]:
        """The vectors, each [rows, dimension + 1]: its numbers as in `numbers`, and a flag of a missing vector."""
        begin, found = self.plain, []
        for column in self.vectors:
            scaled, missing = _cut(standard[:, begin : begin + column.dimension])
            flag = missing[:, :1] & self.flagged[begin]
            found.append(torch.cat([scaled, flag.to(standard.dtype)], dim=1))
            begin += column.dimension
        return found

    def weights(self, standard: Tensor, places: Tensor) -> list[Tensor]:
        """The weights of the values of each list, [rows, length], 0 behind its end."""
        first, begin, found = len(self.tables) - sum(one.length for one in self.lists), self.plain + self.of_vectors, []
        for column in self.lists:
            end = begin + column.length if column.weights else begin
            found.append(weights_of(column, places[:, first : first + column.length], standard[:, begin:end]))
            first, begin = first + column.length, end
        return found

    def unknown(self) -> list[int]:
        """The rows of the embedding table for what the columns do not know."""
        sizes = [0, *self.sizes[:-1]] if self.sizes else []
        return [begin + column for column, begin in enumerate(accumulate(sizes))]

    def places(self, ids: Tensor) -> Tensor:
        """Stable ids, int64 [rows, ids] -> rows of the embedding table, int32 [rows, ids]; NOTHING for PADDING.

        The first row of a column is `unknown`. A row of int32 takes half the memory, and tables have fewer than 2^31.
        """
        found = torch.empty(ids.shape, dtype=torch.int32, device=ids.device)
        begins = list(accumulate(self.sizes, initial=0))
        for place, column in enumerate(self.tables):
            begin, size = begins[column], self.sizes[column]
            known = self.vocabulary[begin : begin + size]
            wanted = ids[:, place].contiguous()
            near = torch.searchsorted(known, wanted)
            hit = near < size
            hit &= known[near.clamp(max=max(size - 1, 0))] == wanted if size else hit
            found[:, place] = torch.where(hit, near + 1, 0) + begin + column
        if self.lists:
            of_lists = found[:, -sum(column.length for column in self.lists) :]
            of_lists.masked_fill_(ids[:, -of_lists.shape[1] :] == PADDING, NOTHING)
        return found


def _cut(standard: Tensor) -> tuple[Tensor, Tensor]:
    """(numbers cut at 10 deviations, 0 where they are missing; whether they are)."""
    missing = torch.isnan(standard)
    return torch.where(missing, 0.0, standard.clamp(-_FAR, _FAR)), missing


def _add_flags(_preprocess: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """A model of before has a flag for every column."""
    if f"{prefix}mean" in state:
        state.setdefault(f"{prefix}flagged", torch.ones_like(state[f"{prefix}mean"], dtype=torch.bool))
