"""Whether a pipeline's derive looks at each row by itself, tested on a few rows of a day.

Training derives a day at a time, evaluation all held-out rows at once, a server what its caller sends. A value that
depends on the rows beside it is another feature in each of them. In a ranking, the rows of a group are the unit: a
value may depend on its group, whole and in any order.

A change here violates the promise of the project when a day is published whose values depend on other rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import ConfigurationError
from ratchet.model.derivation import OwnDerive
from ratchet.model.description import ListColumn, VectorColumn
from ratchet.model.encoding import Floats, encode
from ratchet.model.hashing import Ids

SAMPLE_ROWS = 256
"""Rows that are tested; a ranking may have one group more."""
_ALONE = 8
"""Rows, or groups, that are derived alone."""
_RELATIVE, _OF_COLUMN = 1e-6, 1e-9
"""Differences that do not count: of the value, and of the largest value of its column. Vectorised functions round the
last bit of a number differently in an array and alone."""

Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Reads:
    """What a model reads. group: the column whose rows are derived together, or None where each row is on its own."""

    numeric: Sequence[str]
    categorical: Mapping[str, ColumnType]
    group: str | None
    vectors: Sequence[VectorColumn] = ()
    lists: Sequence[ListColumn] = ()

    @property
    def unit(self) -> str:
        """The rows that a value may depend on."""
        return "row" if self.group is None else "group"

    def encode(self, derived: pd.DataFrame) -> tuple[Floats, Ids]:
        """The values as the model reads them."""
        return encode(
            derived, numeric=self.numeric, categorical=self.categorical, vectors=self.vectors, lists=self.lists
        )

    @property
    def widths(self) -> tuple[int, int]:
        """The numbers and the ids of a row."""
        ids = len(self.categorical) + sum(one.length for one in self.lists)
        return len(self.names) - ids, ids

    @property
    def names(self) -> list[str]:
        """The column that each number is of, and then each id."""
        of_vectors = [one.name for one in self.vectors for _ in range(one.dimension)]
        weights = [one.weights for one in self.lists if one.weights for _ in range(one.length)]
        of_lists = [one.name for one in self.lists for _ in range(one.length)]
        return [*self.numeric, *of_vectors, *weights, *self.categorical, *of_lists]


def refuse_dependence(derive: OwnDerive, df: pd.DataFrame, derived: pd.DataFrame, reads: Reads) -> None:
    """Raise ConfigurationError, with file and line, if values depend on more than their row, or group in a ranking.

    df: the rows of a day as derive gets them. derived: what it made of them. It is called about fifteen times, on at
    most SAMPLE_ROWS rows.
    """
    units = units_of(df, reads.group)
    if not units:
        return
    places = np.sort(np.concatenate(units))
    rows, whole = df.iloc[places], derived.iloc[places]
    where = np.full(len(df), -1, np.int64)
    where[places] = np.arange(len(places))
    same = "the same rows a second time" if len(places) == len(df) else f"{len(places):,} of the {len(df):,} rows alone"
    for how, chosen, index in _views([where[unit] for unit in units], same, reads.unit):
        some = rows.iloc[chosen]
        if index:
            some = some.set_axis(np.arange(len(some)) + len(df) + 7)
        _compare(derive, whole.iloc[chosen], _derived(derive, some, how), reads, how)


def units_of(df: pd.DataFrame, group: str | None) -> list[Places]:
    """The places of the rows to test: of single rows, or of whole groups, from all of them."""
    draw = np.random.default_rng(0)
    if group is None:
        found = np.sort(draw.permutation(len(df))[:SAMPLE_ROWS])
        return [found[place : place + 1] for place in range(len(found))]
    codes, names = pd.factorize(df[group])
    order = np.argsort(codes, kind="stable")
    order = order[codes[order] >= 0]
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []
    chosen: list[Places] = []
    rows = 0
    for number in draw.permutation(len(names)):
        if rows >= SAMPLE_ROWS:
            break
        chosen.append(groups[number])
        rows += len(groups[number])
    return chosen


def _views(units: Sequence[Places], same: str, unit: str) -> Iterator[tuple[str, Places, bool]]:
    """(in words, the places of its rows, whether they have another index) of each way to give rows to derive."""
    draw = np.random.default_rng(1)
    everything = np.sort(np.concatenate(units))
    yield same, everything, False
    yield "the same rows with another index", everything, True
    for number in draw.permutation(len(units))[:_ALONE]:
        yield f"the {unit} alone", np.sort(units[number]), False
    half = len(units) // 2
    for some in (units[:half], units[half:]):
        if some:
            yield "a part of the rows", np.sort(np.concatenate(some)), False
    yield "the same rows in another order", draw.permutation(everything), False


def _derived(derive: OwnDerive, rows: pd.DataFrame, how: str) -> pd.DataFrame:
    try:
        return derive(rows)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error.cause} (derive got {how})", remedy=error.remedy) from error


def _compare(derive: OwnDerive, whole: pd.DataFrame, found: pd.DataFrame, reads: Reads, how: str) -> None:
    """Raise ConfigurationError for the first value that differs."""
    (numbers, ids), (other_numbers, other_ids) = reads.encode(whole), reads.encode(found)
    wrong = np.concatenate([_far(numbers, other_numbers), ids != other_ids], axis=1)
    for row, column in np.argwhere(wrong)[:1]:
        name = reads.names[column]
        before, after = (_shown(frame[name].iloc[row]) for frame in (whole, found))
        own = "its own row" if reads.group is None else f"the rows of its {reads.group}, in any order"
        raise ConfigurationError(
            f"{derive.place(name)}: derive makes {name} {before} for a row among the others, and {after} if it gets"
            f" {how}; allowed: a value of {own}",
            remedy=f"compute it from {own}, without index, state, clock and random numbers; scales and categories"
            " are the model's to learn",
        )


def _far(before: Floats, after: Floats) -> NDArray[np.bool_]:
    """Where numbers differ by more than rounding, or one is missing."""
    one, other = before.astype(np.float64), after.astype(np.float64)
    size = np.fmax(np.abs(one), np.abs(other))
    largest = np.fmax.reduce(size, axis=0, initial=0.0)
    far = np.nan_to_num(np.abs(one - other)) > _RELATIVE * size + _OF_COLUMN * largest
    return np.asarray(far | (np.isnan(one) != np.isnan(other)), np.bool_)


def _shown(value: object) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:g}"
    return repr(value) if isinstance(value, str) else str(value)
