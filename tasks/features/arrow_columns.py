"""Columns of Arrow as numbers and as stable ids: what `ratchet.model.encoding` makes of the same columns of pandas."""

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ratchet.contracts.columns import ColumnType
from ratchet.model.encoding import LARGEST, Floats
from ratchet.model.hashing import MISSING, Ids, integer_ids, text_ids

_KNOWN = 1 << 18
"""Texts of a column whose ids are kept from one batch to the next."""
_BLOCK = 4096
"""Rows that fit into the cache of a core."""


def numbers_of(values: "pa.ChunkedArray") -> Floats:
    """float64; NaN where a number is missing, infinite or beyond LARGEST."""
    plain = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    wide = plain.cast(pa.float64(), safe=False).to_numpy()
    return np.where(np.abs(wide) <= LARGEST, wide, np.nan)


class CategoryIds:
    """The ids of one column, batch by batch. Threads may share it."""

    def __init__(self, kind: ColumnType) -> None:
        self._kind = kind
        self._known: dict[str, int] = {}

    def of(self, values: "pa.ChunkedArray") -> tuple[Ids, Ids]:
        """(the id of each value, MISSING where there is none; [n, 2] of each id and how often it is there)."""
        listed = values.combine_chunks()
        listed = pa.concat_arrays(listed.chunks) if isinstance(listed, pa.ChunkedArray) else listed
        if not pa.types.is_dictionary(listed.type):
            listed = listed.dictionary_encode()
        present = self._texts(listed.dictionary) if self._kind == "string" else _integers(listed.dictionary)
        places = listed.indices.fill_null(-1).to_numpy()
        each = np.append(present, MISSING)
        unique, merged = np.unique(each, return_inverse=True)
        rows = np.bincount(merged, np.bincount(places % len(each), minlength=len(each))).astype(np.int64)
        return each[places], np.stack([unique, rows], axis=1)[rows > 0]

    def _texts(self, texts: "pa.StringArray") -> Ids:
        listed = texts.to_pylist()
        found = np.fromiter(map(self._known.get, listed, repeat(MISSING)), np.int64, len(listed))
        new = np.flatnonzero(found == MISSING)  # which is the id of no text
        found[new] = text_ids(listed[place] for place in new)
        if len(self._known) < _KNOWN:
            self._known.update((listed[place], int(found[place])) for place in new)
        return found


def _integers(values: "pa.Array") -> Ids:
    return integer_ids(values.cast(pa.int64()).to_numpy())


def side_by_side(columns: Sequence[NDArray[np.generic]], into: NDArray[np.generic]) -> None:
    """Write columns into an array of rows, block by block: a row's values lie beside each other in memory."""
    for begin in range(0, len(into), _BLOCK):
        for place, column in enumerate(columns):
            into[begin : begin + _BLOCK, place] = column[begin : begin + _BLOCK]
