"""The rows that models are measured on, and the units that vary independently of each other."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows to measure models on.

    label: [rows]. offsets: [groups + 1] into the rows, or None without groups. weight: [rows], from 0 up; None is 1 for
    each row. cluster: [rows], equal numbers for rows that vary together, such as those of a user, and -1 where that is
    not known; None if nothing varies together but the rows of a group.

    A unit is a cluster, without one the group, without one the row. Clusters that share a group are one unit.
    """

    label: Floats
    offsets: Codes | None
    weight: Floats | None = None
    cluster: Codes | None = None

    def select(self, mask: NDArray[np.bool_]) -> "Rows":
        """Select rows by a mask; groups without a row are dropped, clusters stay."""
        weight = None if self.weight is None else self.weight[mask]
        cluster = None if self.cluster is None else self.cluster[mask]
        offsets = None
        if self.offsets is not None:
            sizes = np.add.reduceat(mask, self.offsets[:-1], dtype=np.int64) if len(mask) else np.zeros(0, np.int64)
            offsets = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
        return Rows(label=self.label[mask], offsets=offsets, weight=weight, cluster=cluster)

    def whole_groups(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask of all rows of each group of which a mask has a row; without groups the mask itself."""
        if self.offsets is None or not len(mask):
            return mask
        return np.repeat(np.logical_or.reduceat(mask, self.offsets[:-1]), np.diff(self.offsets))

    def by_group(self, values: Floats) -> Floats:
        """The sums of row values [rows, k] over each group [groups, k]; without groups the values themselves."""
        return values if self.offsets is None else np.asarray(np.add.reduceat(values, self.offsets[:-1], axis=0))

    def by_unit(self, values: Floats) -> Floats:
        """The sums of row values [rows, k] over each unit [units, k]."""
        return self.groups_by_unit(self.by_group(values))

    def groups_by_unit(self, values: Floats) -> Floats:
        """The sums of the values of groups, or of rows without groups, [groups, k] over each unit [units, k]."""
        if self.unit_of_group is None:
            return values
        wide = values.reshape(len(values), -1)
        count = int(self.unit_of_group.max(initial=-1)) + 1
        columns = [np.bincount(self.unit_of_group, column, minlength=count) for column in wide.T]
        summed: Floats = np.stack(columns, axis=1).astype(np.float64).reshape(-1, *values.shape[1:])
        return summed

    @cached_property
    def unit_of_group(self) -> Codes | None:
        """The unit, from 0 up, of each group, or of each row without groups; None where each is one of its own."""
        if self.cluster is None or not len(self.cluster):
            return None
        rows = np.arange(len(self.cluster))
        known = np.where(self.cluster < 0, rows + self.cluster.max() + 1, self.cluster)
        codes: Codes = np.unique(known, return_inverse=True)[1].astype(np.int64)
        if self.offsets is None:
            return codes
        if (self.cluster < 0).any():
            codes = self._joined_to_groups(codes)
        merged: Codes = np.unique(_merge(codes, self.offsets), return_inverse=True)[1].astype(np.int64)
        return merged

    def _joined_to_groups(self, codes: Codes) -> Codes:
        """A row without a cluster belongs to that of its group."""
        if self.offsets is None or self.cluster is None:
            return codes
        best = np.maximum.reduceat(np.where(self.cluster < 0, -1, codes), self.offsets[:-1])
        first = codes[self.offsets[:-1]]
        group = np.where(best < 0, first, best).repeat(np.diff(self.offsets))
        return np.where(self.cluster < 0, group, codes)

    @property
    def unit_of_rows(self) -> Codes:
        """The unit, from 0 up, of each row [rows]."""
        group = (
            np.arange(len(self.label))
            if self.offsets is None
            else np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        )
        return group if self.unit_of_group is None else self.unit_of_group[group]

    def unit_or_block(self, most: int) -> tuple[Codes, int]:
        """The unit of each row [rows], or of more units than `most` its block, interleaved; and how many there are."""
        unit = self.unit_of_rows
        units = int(unit.max(initial=-1)) + 1
        return (unit, units) if units <= most else (unit % most, most)

    @property
    def weights(self) -> Floats:
        """The weight of each row [rows]."""
        return np.ones(len(self.label)) if self.weight is None else self.weight

    def weights_of_groups(self) -> Floats:
        """The weight of each group in a ranking [groups]: the mean weight of its labels; 0 without a positive label.

        Rows of one weight give their group that weight. The loss of a ranking weighs its groups by the same.
        """
        labels = self.by_group(self.label)
        return np.divide(self.by_group(self.label * self.weights), labels, out=np.zeros(len(labels)), where=labels > 0)

    def weights_of_units(self, mask: NDArray[np.bool_]) -> Floats:
        """The mean weight of the rows of each unit that a mask selects [units]; 0 for a unit without one."""
        if self.offsets is None and self.unit_of_group is None:
            return self.weights * mask
        sums = self.by_unit(np.stack([self.weights * mask, mask], axis=1))
        return np.divide(sums[:, 0], sums[:, 1], out=np.zeros(len(sums)), where=sums[:, 1] > 0)


def _merge(codes: Codes, offsets: Codes) -> Codes:
    """The cluster of each group [groups], where clusters that share a group count as one."""
    sizes = np.diff(offsets)
    root = np.arange(int(codes.max(initial=-1)) + 1)
    while True:
        least = np.minimum.reduceat(root[codes], offsets[:-1])
        joined = root.copy()
        np.minimum.at(joined, codes, least.repeat(sizes))
        joined = joined[joined]
        if np.array_equal(joined, root):
            return least
        root = joined
