"""An array that is written row by row to a file of numpy (.npy), so that it need not fit into memory."""

from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

Array = NDArray[np.generic]
_BLOCK = 8 << 20
"""Bytes that are turned into wider numbers at once."""


class ArrayFile:
    """Of [rows, columns]. A number that its type does not hold exactly makes the whole array float64.

    rows: all of them, which have to be known before. dtype: of the array, if `add` gets numbers that it holds.
    """

    def __init__(self, path: Path, rows: int, columns: int, dtype: type[np.generic]) -> None:
        self._path, self._shape, self._dtype = path, (rows, columns), np.dtype(dtype)
        self._file = self._begin(path)
        self._written = 0

    def add(self, rows: Array) -> None:
        """Write the next rows."""
        if self._dtype == np.float32 and not _holds(rows):
            self._widen()
        self._file.write(np.ascontiguousarray(rows, self._dtype).data)
        self._written += len(rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()
        if kind is None and self._written != self._shape[0]:
            raise AssertionError(f"{self._path.name}: {self._written} rows were written, of {self._shape[0]}")

    def _begin(self, path: Path) -> BinaryIO:
        file = path.open("wb")
        header = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": self._shape}
        npy.write_array_header_1_0(file, header)
        return file

    def _widen(self) -> None:
        """Write again what was written, as float64."""
        self._file.close()
        narrow = self._path.with_suffix(".narrow")
        self._path.rename(narrow)
        self._dtype = np.dtype(np.float64)
        self._file = self._begin(self._path)
        with narrow.open("rb") as file:
            npy.read_magic(file)
            npy.read_array_header_1_0(file)
            while block := file.read(_BLOCK):
                self._file.write(np.frombuffer(block, np.float32).astype(np.float64).data)
        narrow.unlink()


def permute(path: Path, order: NDArray[np.intp]) -> None:
    """Put the rows of an array's file into another order."""
    rows = np.load(path, mmap_mode="r", allow_pickle=False)
    other = path.with_suffix(".ordered")
    with ArrayFile(other, len(rows), rows.shape[1], rows.dtype.type) as file:
        step = max(1, _BLOCK // max(rows.dtype.itemsize * rows.shape[1], 1))
        for begin in range(0, len(rows), step):
            file.add(rows[order[begin : begin + step]])
    other.replace(path)


def _holds(rows: Array) -> bool:
    """Whether float32 holds each number exactly."""
    with np.errstate(under="ignore", over="ignore"):
        return np.array_equal(rows.astype(np.float32), rows, equal_nan=True)
