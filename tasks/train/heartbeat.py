"""The signs of life of the ranks of a training, in a small mapped file that the process above them reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_STARTS, _BEATS, _WAITING, _STEP, _OVER = range(5)
_FIELDS = 5


@dataclass(frozen=True, slots=True)
class Sign:
    """What a rank has last written. starts, beats: how often it got on before and after its first micro-batch.

    waiting: for another rank. step: completed steps. over: whether its loop has ended.
    """

    starts: int
    beats: int
    waiting: bool
    step: int
    over: bool


class Heartbeat:
    """Written by one rank. Without a file it writes into its own memory."""

    def __init__(self, file: Path | None = None, rank: int = 0) -> None:
        self._fields = _fields_of(file, rank)

    def start(self) -> None:
        """The rank got on with what comes before the first step."""
        self._fields[_STARTS] += 1

    def beat(self) -> None:
        """The rank got on."""
        self._fields[_BEATS] += 1

    def step(self, completed: int) -> None:
        """The rank has completed so many steps."""
        self._fields[_STEP] = completed
        self.beat()

    def end(self) -> None:
        """The loop has ended."""
        self._fields[_OVER] = 1

    @property
    def sign(self) -> Sign:
        """The last sign."""
        return _sign(self._fields.tolist())

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The rank waits for another one."""
        self._fields[_WAITING] = 1
        yield
        self._fields[_WAITING] = 0


def create(file: Path, ranks: int) -> None:
    """Make the file in which nobody has written yet."""
    np.zeros((ranks, _FIELDS), np.int64).tofile(file)


def read(file: Path) -> list[Sign]:
    """The last sign of each rank."""
    return [_sign(fields) for fields in np.fromfile(file, np.int64).reshape(-1, _FIELDS).tolist()]


def _sign(fields: list[int]) -> Sign:
    return Sign(
        starts=fields[_STARTS],
        beats=fields[_BEATS],
        waiting=bool(fields[_WAITING]),
        step=fields[_STEP],
        over=bool(fields[_OVER]),
    )


def _fields_of(file: Path | None, rank: int) -> NDArray[np.int64]:
    if file is None:
        return np.zeros(_FIELDS, np.int64)
    fields: NDArray[np.int64] = np.memmap(file, np.int64, "r+").reshape(-1, _FIELDS)[rank]
    return fields
