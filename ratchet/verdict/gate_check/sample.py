"""The held-out rows of a run with the scores of both models, as the pair that nights are drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.gate import family
from ratchet.metrics.metrics import OF_RANKS, Floats, Rows, measure
from ratchet.verdict.gate_check.draws import Indices, ranges
from ratchet.verdict.gate_check.normal_scores import normal_scores
from ratchet.verdict.gate_check.pair import OF_MEANS, Pair, ScoredPair, SummedPair
from ratchet.verdict.masks import SliceRows

OF_ORDER = frozenset({"auc", "pr_auc"})
"""Metrics of the order of all rows: another scale of the scores is the same model."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Column:
    """A column of the held-out rows. codes: [rows], which of `values` a row has; -1 where it has none."""

    codes: Indices
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """The held-out rows of one run. baseline_kind: champion, or constant on a first night.

    slices: those of evaluate.slices, by rows. others: columns that may name what the units belong to, such as a user.
    unread: entries of evaluate.slices whose columns the run did not keep.
    """

    run_id: str
    day: date
    rows: Rows
    candidate: Floats
    baseline: Floats
    baseline_kind: str
    slices: tuple[SliceRows, ...] = ()
    others: Mapping[str, Column] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both models give each row the same score."""
        return np.array_equal(self.candidate, self.baseline)

    def measurable(self, metric: str) -> "Sample":
        """The rows of the groups that a metric of ranks has a value on: those with a positive label; sorted by unit."""
        if family(metric) not in OF_RANKS or self.rows.offsets is None:
            return self.by_cluster()
        mask = self.rows.whole_groups((self.rows.label > 0) & (self.rows.weights > 0))
        return self.select(mask).by_cluster()

    def by_cluster(self) -> "Sample":
        """The same rows, those of a unit next to each other, and its number as their cluster."""
        unit = self.rows.unit_of_group
        if unit is None:
            return self
        starts = np.arange(len(self.rows.label) + 1) if self.rows.offsets is None else self.rows.offsets
        groups = np.argsort(unit, kind="stable")
        sizes = np.diff(starts)[groups]
        found = self._taken(ranges(starts, groups))
        rows = Rows(
            label=found.rows.label,
            offsets=None if self.rows.offsets is None else np.concatenate([[0], np.cumsum(sizes)]),
            weight=found.rows.weight,
            cluster=np.repeat(unit[groups], sizes),
        )
        return replace(found, rows=rows)

    def _taken(self, index: Indices) -> "Sample":
        """Rows by their places; groups and clusters are left to the caller."""
        weight = None if self.rows.weight is None else self.rows.weight[index]
        return replace(
            self,
            rows=Rows(label=self.rows.label[index], offsets=None, weight=weight),
            candidate=self.candidate[index],
            baseline=self.baseline[index],
            slices=tuple(one._replace(mask=one.mask[index]) for one in self.slices),
            others=_chosen(self.others, index),
        )

    def select(self, mask: NDArray[np.bool_]) -> "Sample":
        """Some of the rows."""
        return replace(self._taken(np.flatnonzero(mask)), rows=self.rows.select(mask))

    @property
    def unit_offsets(self) -> Indices:
        """Where the units begin, and the end: clusters where they are named, else groups, else rows."""
        if self.rows.cluster is not None:
            starts = np.flatnonzero(np.diff(self.rows.cluster, prepend=-1) != 0)
            return np.append(starts, len(self.rows.cluster)).astype(np.int64)
        return np.arange(len(self.rows.label) + 1) if self.rows.offsets is None else self.rows.offsets

    def by_unit(self, column: Column) -> Indices | None:
        """The code of each unit; None for a column that has two values in one unit."""
        starts = self.unit_offsets[:-1]
        if not len(starts):
            return None
        low, high = (one.reduceat(column.codes, starts) for one in (np.minimum, np.maximum))
        return np.asarray(low) if np.array_equal(low, high) else None


def pair_of(sample: Sample, metric: str) -> Pair | None:
    """Both models on the units of a sample that a metric can be measured on; None where it has no value."""
    rows = sample.rows
    if family(metric) in OF_MEANS:
        ours, theirs = measure(metric, rows, sample.candidate), measure(metric, rows, sample.baseline)
        if not ours or not theirs:
            return None
        return SummedPair(metric=metric, candidate=ours, baseline=theirs)
    scale = normal_scores if family(metric) in OF_ORDER else np.asarray
    found = ScoredPair(
        metric=metric,
        rows=rows,
        candidate=scale(sample.candidate),
        baseline=scale(sample.baseline),
        offsets=sample.unit_offsets,
    )
    return found if found.whole else None


def _chosen(columns: Mapping[str, Column], index: Indices) -> dict[str, Column]:
    return {name: Column(codes=one.codes[index], values=one.values) for name, one in columns.items()}
