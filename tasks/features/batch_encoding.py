"""A batch of rows as arrays, from Arrow's columns: what `ratchet.model.encoding` gives for a data frame, bit for bit.

A served model gets data frames. So the first rows of each day are encoded in both ways, and one bit of difference ends
the stage.

A change here violates the promise of the project when a row is encoded otherwise than a served model would encode it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa

from ratchet.contracts.columns import ColumnType, Transform
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.model.derivation import Derive, OwnDerive
from ratchet.model.encoding import Floats, category_ids, plain_numbers
from ratchet.model.hashing import Ids
from ratchet.model.independence import Reads, refuse_dependence, units_of
from ratchet.model.list_encoding import encode_list, encode_vector
from ratchet.model.made_columns import MadeDerive
from ratchet.model.rows import frame, series
from tasks.features.arrow_columns import CategoryIds, numbers_of, side_by_side
from tasks.features.batches import Batch
from tasks.features.derived_rules import DerivedTally
from tasks.features.lists import count_all, count_lists
from tasks.features.refusals import WholeNumbers
from tasks.features.statistics import Moments, add_counts, moments

_COUNTED = 8
"""Batches whose counts of ids are kept before they are added up: each may have ids of its own."""
_KINDS = (np.float64, np.int64)


@dataclass(kw_only=True, eq=False)
class DaySums:
    """What is added up over the batches of a day.

    derived: for the rules of derived columns. whole: of columns of whole numbers. moments: of each number that is
    standardised, batch by batch. counts: of ids, see lists.count_all.
    """

    derived: DerivedTally
    whole: dict[str, WholeNumbers] = field(default_factory=dict)
    moments: list[list[Moments]] = field(default_factory=list)
    counts: list[Ids] = field(default_factory=list)

    def add(self, other: "DaySums") -> None:
        """Add those of the next rows."""
        self.derived.merge(other.derived)
        for name, part in other.whole.items():
            self.whole[name] = self.whole[name] + part if name in self.whole else part
        self.moments += other.moments
        self.counts += other.counts
        if len(self.counts) > _COUNTED:
            self.counts = [add_counts(self.counts)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedBatch:
    """numbers, ids: see `ratchet.model.encoding.encode`; sorted by group if the batch has an order."""

    numbers: Floats
    ids: Ids
    sums: DaySums
    is_sorted: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchEncoder:
    """How the batches of a day are encoded.

    missing: columns with a missing value anywhere in the day. transforms: of each number that is standardised.
    categories: by column.
    """

    spec: PipelineSpec
    reads: Reads
    derive: Derive
    missing: frozenset[str]
    transforms: Sequence[Transform | None]
    categories: Mapping[str, CategoryIds]

    @property
    def as_dictionary(self) -> list[str]:
        """The columns of text that are read as the file has them: each value once."""
        if isinstance(self.derive, OwnDerive):
            return []
        made = {one.name for one in self.derive.made}
        return [name for name, kind in self.reads.categorical.items() if kind == "string" and name not in made]

    @property
    def needs_groups(self) -> bool:
        """Whether a value may depend on the rows of its group."""
        return self.derive.of_groups and self.reads.group is not None

    def encode(self, batch: Batch, *, first: bool) -> EncodedBatch:
        """first: whether to encode some rows in both ways. Raises DataRejected and ConfigurationError."""
        rows, sums = batch.read(), DaySums(derived=DerivedTally(self.spec))
        if isinstance(self.derive, OwnDerive):
            given = self._frame(rows)
            derived = self.derive(given)
            refuse_dependence(self.derive, given, derived, self.reads)
            sums.derived.add(derived)
            numbers, ids = self.reads.encode(derived)
            sums.counts = [count_all(ids, self.spec)]
            whole = {name: _whole(derived[name]) for name in self.reads.numeric}
        else:
            made = self._made(self.derive, rows)
            sums.derived.add(made)
            numbers, ids, counts = self._arrow(rows, made)
            sums.counts = [counts]
            if first:
                self._refuse_skew(rows, numbers, ids)
            plain = [name for name in self.reads.numeric if name not in made.columns and name not in self.missing]
            whole = {name: _whole(rows.column(name)) for name in plain}
        if batch.order is not None:
            numbers, ids = numbers[batch.order], ids[batch.order]
        sums.whole = {name: found for name, found in whole.items() if found}
        sums.moments = [[moments(numbers[:, place], transform) for place, transform in enumerate(self.transforms)]]
        return EncodedBatch(numbers=numbers, ids=ids, sums=sums, is_sorted=batch.order is not None)

    def _frame(self, rows: "pa.Table") -> pd.DataFrame:
        return frame(rows, self.spec.columns, self.missing)

    def _series(self, rows: "pa.Table", name: str) -> pd.Series:
        found = series(rows.column(name), self.spec.columns[name], missing=name in self.missing)
        return found.rename(name)

    def _made(self, derive: MadeDerive, rows: "pa.Table") -> pd.DataFrame:
        """The columns that are made of others, without these."""
        return derive(self._frame(self._plain(rows.select(derive.inputs)))).drop(columns=derive.inputs)

    def _arrow(self, rows: "pa.Table", made: pd.DataFrame) -> tuple[Floats, Ids, Ids]:
        """(numbers, ids) as `ratchet.model.encoding.encode` does it, in the same order; the counts of ids."""
        reads = self.reads
        numbers, ids = (
            np.empty((rows.num_rows, width), kind) for width, kind in zip(reads.widths, _KINDS, strict=True)
        )
        columns = [
            plain_numbers(made[name]) if name in made else numbers_of(rows.column(name)) for name in reads.numeric
        ]
        side_by_side(columns, numbers)
        of_categories = [
            self.categories[name].of(_as_arrow(made[name], kind) if name in made else rows.column(name))
            for name, kind in reads.categorical.items()
        ]
        side_by_side([found for found, _ in of_categories], ids)
        first = len(reads.categorical)
        counts = [np.insert(counted, 0, place, axis=1) for place, (_, counted) in enumerate(of_categories)]
        begin = len(reads.numeric)
        for one in reads.vectors:
            numbers[:, begin : begin + one.dimension] = encode_vector(self._series(rows, one.name), one)
            begin += one.dimension
        place = first
        for several in reads.lists:
            shares = self._series(rows, several.weights) if several.weights else None
            ids[:, place : place + several.length], weights = encode_list(
                self._series(rows, several.name), several, shares, category_ids
            )
            place += several.length
            if several.weights:
                numbers[:, begin : begin + several.length] = weights
                begin += several.length
        return numbers, ids, np.concatenate([*counts, count_lists(ids[:, first:], self.spec, first=first)])

    def _plain(self, rows: "pa.Table") -> "pa.Table":
        """The rows without dictionaries."""
        for name in set(self.as_dictionary) & set(rows.column_names):
            rows = rows.set_column(rows.column_names.index(name), name, rows.column(name).cast(pa.string()))
        return rows

    def _refuse_skew(self, rows: "pa.Table", numbers: Floats, ids: Ids) -> None:
        """Raise an error of Ratchet, not of the data, if a served model would encode some of the rows otherwise."""
        group = self.reads.group
        keys = self._frame(rows.select([group])) if group else pd.DataFrame(index=range(rows.num_rows))
        some = np.sort(np.concatenate(units_of(keys, group)))
        served = self.reads.encode(self.derive(self._frame(self._plain(rows.take(pa.array(some))))))
        for ours, theirs in zip((numbers[some], ids[some]), served, strict=True):
            if ours.tobytes() != theirs.tobytes():
                raise RatchetError("rows of this day are encoded otherwise than a served model would encode them")


def _as_arrow(values: pd.Series, kind: ColumnType) -> "pa.ChunkedArray":
    return pa.chunked_array([pa.array(values, pa.string() if kind == "string" else pa.int64(), from_pandas=True)])


def _whole(values: "pd.Series | pa.ChunkedArray") -> WholeNumbers | None:
    """What decides whether whole numbers blur; None for other numbers."""
    if isinstance(values, pd.Series):
        is_whole = pd.api.types.is_integer_dtype(values.dtype)
        return WholeNumbers.of(values.dropna().to_numpy(np.int64)) if is_whole else None
    return WholeNumbers.of(values.drop_null().to_numpy()) if pa.types.is_int64(values.type) else None
