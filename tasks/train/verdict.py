"""How a rank ended, in a file that the process above the ranks reads: so that exit codes keep their meaning.

A change here violates the promise of the project when a training with several ranks ends with another exit code than
the error of the rank that failed first has.
"""

import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from ratchet.contracts import errors
from ratchet.contracts.document import Document
from ratchet.contracts.errors import RatchetError, Unavailable
from ratchet.contracts.exits import ExitCode
from ratchet.runtime.logs import code_of
from tasks.train.ranks import RankLost


class Verdict(Document):
    """Why a rank failed. kind: the class of its error. at: seconds, on the clock that all processes of a host share."""

    rank: int
    kind: str
    code: int
    cause: str
    remedy: str
    traceback: str
    at: float

    @property
    def is_lost(self) -> bool:
        """Whether it says no more than that another rank has ended."""
        return self.kind == RankLost.__name__


class Writer:
    """Every error that leaves the block becomes the rank's verdict. code: the exit code, 0 without an error."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.code = 0
        self._folder, self._rank = folder, rank

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        if error is not None:
            self.code = self._write(error)
        return True

    def _write(self, error: BaseException) -> int:
        known = error if isinstance(error, RatchetError) else None
        code = code_of(error)
        found = Verdict(
            rank=self._rank,
            kind=type(error).__name__,
            code=code,
            cause=known.cause if known else f"{type(error).__name__}: {error}",
            remedy=known.remedy if known else "",
            traceback="".join(traceback.format_exception(error)),
            at=time.monotonic(),
        )
        file = _file(self._folder, self._rank)
        file.with_suffix(".part").write_text(found.model_dump_json(), encoding="utf-8")
        file.with_suffix(".part").rename(file)
        return int(code)


def read(folder: Path, rank: int) -> Verdict | None:
    """A rank's verdict; None if it wrote none."""
    try:
        return Verdict.model_validate_json(_file(folder, rank).read_bytes())
    except FileNotFoundError:
        return None


def first_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The one that the others follow from. That a rank lost another one is no cause where there is more."""
    return min(verdicts, key=lambda one: (one.is_lost, one.at))


def error_of(verdict: Verdict) -> RatchetError:
    """The error that the rank raised; of a kind that Ratchet does not know, one with its exit code."""
    if verdict.is_lost:
        return Unavailable(verdict.cause, remedy="wait for the retry, which goes on from the newest checkpoint")
    kind = getattr(errors, verdict.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, RatchetError)):
        kind = errors.OutOfMemory if verdict.code == ExitCode.OUT_OF_MEMORY else RatchetError
    return kind(verdict.cause, remedy=verdict.remedy or None)


def _file(folder: Path, rank: int) -> Path:
    return folder / f"verdict-{rank}.json"
