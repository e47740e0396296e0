"""The as-of join: for each row the newest further row of its key whose time is at or before its own.

Written here, and not taken from DuckDB or polars: of two further rows with the same key and time the later one counts,
a missing key or time joins nothing, and what is prepared of the further rows serves every batch of a day.

A change here violates the promise of the project when a row is joined to one of after its time, or when the same rows
in other batches are joined otherwise.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_EARLIEST = np.iinfo(np.int64).min
NONE = -1
"""In the place of a row: there is none."""


class AsOf:
    """Further rows, prepared to be found by key and time.

    keys: a column for each key. times: when the rows became known, timestamps in microseconds. Of rows with equal key
    and time the last one counts. within: how much older than its row one may be, in microseconds.
    """

    def __init__(self, keys: Sequence[Any], times: Any, within: int) -> None:
        self._within = within
        self._values: list[Any] = []
        self._combined: list[Any] = []
        ids = self._learn(keys)
        moments, known = _moments(times)
        rows = np.flatnonzero((ids >= 0) & known)
        ids, moments = ids[rows], moments[rows]
        # lexsort is stable: rows that are equal keep their order
        order = np.lexsort((moments, ids))
        ids, moments = ids[order], moments[order]
        self._times, ranks = np.unique(moments, return_inverse=True)
        places = ids * len(self._times) + ranks
        last = np.append(places[1:] != places[:-1], [True]) if len(places) else np.zeros(0, bool)
        self._places, self._ids, self._moments = places[last], ids[last], moments[last]
        self._rows = rows[order][last]

    def find(self, keys: Sequence[Any], times: Any) -> Any:
        """For each row of a batch the place of its further row, NONE without one."""
        ids = self._known(keys)
        moments, known = _moments(times)
        if not len(self._places):
            return np.full(len(ids), NONE)
        ranks = np.searchsorted(self._times, moments, side="right") - 1
        possible = (ids >= 0) & known & (ranks >= 0)
        places = np.where(possible, ids * len(self._times) + ranks, NONE)
        found = np.searchsorted(self._places, places, side="right") - 1
        possible &= found >= 0
        oldest = np.maximum(moments, _EARLIEST + self._within) - self._within
        possible &= (self._ids[found] == ids) & (self._moments[found] >= oldest)
        return np.where(possible, self._rows[found], NONE)

    def _learn(self, keys: Sequence[Any]) -> Any:
        """A number for each combination of keys that there is; NONE where one is missing."""
        ids: Any = None
        for key in keys:
            values = pc.unique(key).drop_null()
            self._values.append(values)
            own = _index(key, values)
            if ids is None:
                ids = own
                continue
            combined = _combine(ids, own, len(values))
            distinct = np.unique(combined[combined >= 0])
            self._combined.append(distinct)
            ids = _place(distinct, combined)
        return ids

    def _known(self, keys: Sequence[Any]) -> Any:
        """The numbers of a batch's keys; NONE also for a combination that no further row has."""
        ids = _index(keys[0], self._values[0])
        for key, values, distinct in zip(keys[1:], self._values[1:], self._combined, strict=True):
            ids = _place(distinct, _combine(ids, _index(key, values), len(values)))
        return ids


def _index(column: Any, values: Any) -> Any:
    found = pc.index_in(column, value_set=values, skip_nulls=True)
    return np.asarray(pc.fill_null(found, NONE), np.int64)


def _combine(ids: Any, own: Any, many: int) -> Any:
    return np.where((ids >= 0) & (own >= 0), ids * many + own, NONE)


def _place(distinct: Any, combined: Any) -> Any:
    """The place of each number among the distinct ones; NONE for another."""
    if not len(distinct):
        return np.full(len(combined), NONE)
    found = np.minimum(np.searchsorted(distinct, combined), len(distinct) - 1)
    return np.where(distinct[found] == combined, found, NONE)


def _moments(times: Any) -> tuple[Any, Any]:
    """Microseconds of timestamps, and which of them are there."""
    numbers = pc.cast(times, pa.int64())
    return np.asarray(pc.fill_null(numbers, 0)), np.asarray(pc.is_valid(numbers))
