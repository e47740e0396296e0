"""A model in a process of its own: loaded from what was packed with it, asked for scores, and ended.

What the model's code does to its process (modules, settings, memory) reaches neither the process that asks, nor another
model. What an answer means for a verdict is decided by who asks.

A change here violates the promise of the project when a fault of this machine is taken for one of the model, or the
process outlives the one that asked.
"""

import contextlib
import json
import signal
import socket
from itertools import count, pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ratchet.contracts import errors
from ratchet.contracts.errors import ConfigurationError, OutOfMemory, Unavailable
from ratchet.model.zygote import REGISTERED, zygote

Scores = NDArray[np.float64]

LIMIT_S = 1200.0
"""For one answer. A stage's own limit is longer, so that a verdict can be written about a model that never answers."""
_STOPS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_BUILTIN: dict[str, type[BaseException]] = {
    "MemoryError": MemoryError,
    "ConnectionError": ConnectionError,
    "TimeoutError": TimeoutError,
    "OSError": OSError,
    "RuntimeError": RuntimeError,
}


class ModelError(Exception):
    """An error of a model's process that has no name here; its text begins with its type."""


class ModelProcess:
    """A model's process. It starts when this is made, and `digest` or the first question waits for it.

    Errors of the model's own tree, of memory and of the machine are raised as they are, all others as ModelError.
    Raises ConfigurationError if the process ended itself or gave no answer in time, OutOfMemory if it was killed,
    Unavailable if it was told to stop.
    """

    def __init__(self, package: Path, model: Path, scratch: Path, *, limit_s: float = LIMIT_S) -> None:
        """package: as `package.unpack` makes it. model: as `files.lay_out` does. scratch: for rows and scores.

        For a model as register uploads it, both are its MLflow folder.
        """
        self._folder = scratch / f"asked-{model.name}"
        self._folder.mkdir()
        self._limit_s = limit_s
        self._numbers = count()
        self._loaded: dict[str, Any] | None = None
        self.memory: dict[str, int] = {}
        """Bytes of main memory after the last answer: `now`, and at `most` so far; empty where nothing says so."""
        ours, theirs = socket.socketpair()
        self._zygote = zygote(*(REGISTERED if package == model else ()))
        with theirs:
            self._number: int | None = self._zygote.fork(theirs, package, model, self._folder)
        ours.settimeout(limit_s)
        self._link = ours
        self._answers = ours.makefile("r")

    def __enter__(self) -> Self:
        """The process itself."""
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        """End the process."""
        self.close()

    def close(self) -> None:
        """End the process; safe to call again."""
        self._answers.close()
        self._link.close()
        if self._number is not None:
            number, self._number = self._number, None
            with contextlib.suppress(Unavailable):  # it has ended, and its forks with it
                self._zygote.end(number)

    @property
    def digest(self) -> str:
        """The model's identity. Waits until it is loaded."""
        if self._loaded is None:
            self._loaded = self._answer()
        return str(self._loaded["digest"])

    def score(self, df: pd.DataFrame) -> Scores:
        """Scores of raw rows at once, float64 [rows], [rows, classes] for multiclass."""
        return self._scores("score", df)[0]

    def score_each(self, df: pd.DataFrame, bounds: list[int], *, rounds: int) -> tuple[Scores, list[list[float]]]:
        """Scores of the rows between two bounds at once, one piece after another; and milliseconds by round and piece.

        bounds: where pieces begin, and the end.
        """
        scores, answer = self._scores("each", df, bounds=bounds, rounds=rounds)
        return scores, answer["milliseconds"]

    def latency(self, df: pd.DataFrame) -> float:
        """Milliseconds in which rows are scored at once, the best of a few tries."""
        return float(self._ask("latency", df)["milliseconds"])

    def derive(self, df: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
        """The columns that the model's own code makes of raw rows."""
        out = self._place()
        self._ask("derive", df, out=str(out), columns=columns)
        return read_written(out)

    def _scores(self, do: str, df: pd.DataFrame, **more: Any) -> tuple[Scores, dict[str, Any]]:
        out = self._place()
        answer = self._ask(do, df, out=str(out), **more)
        scores: Scores = np.load(out, allow_pickle=False)
        out.unlink()
        if scores.shape[:1] != (len(df),):
            raise ModelError(f"it gives scores of the shape {list(scores.shape)} for {len(df):,} rows")
        return scores, answer

    def _ask(self, do: str, df: pd.DataFrame, **question: Any) -> dict[str, Any]:
        _ = self.digest
        rows = self._place()
        write_rows(df, rows)
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has ended: the answer says how
                self._link.sendall(json.dumps({"do": do, "rows": str(rows), **question}).encode() + b"\n")
            return self._answer()
        finally:
            rows.unlink()

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._answers.readline()
        except TimeoutError:
            raise ConfigurationError(
                f"the model gave no answer in {self._limit_s:g} s",
                remedy="make its code end; look for a loop or a wait",
            ) from None
        except ConnectionResetError:
            line = ""
        if not line.endswith("\n"):
            raise self._end()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise _rebuilt(answer["error"])
        self.memory = answer["memory"]
        return answer

    def _end(self) -> Exception:
        """The error of a process that ended without an answer."""
        number, self._number = self._number, None
        code = self._zygote.wait(number) if number is not None else 0
        if -code == signal.SIGKILL:
            return OutOfMemory("the process of a model was killed, most likely for lack of memory")
        if -code in _STOPS:
            return Unavailable(f"the process of a model was stopped by signal {-code}", remedy="run again")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return ConfigurationError(
            f"the model's code ended its process with {how}", remedy="remove what ends it; raise an error instead"
        )

    def _place(self) -> Path:
        return self._folder / f"{next(self._numbers)}"


def write_rows(df: pd.DataFrame, path: Path) -> None:
    """Rows as a file of Arrow that keeps the types of the data frame, for `read_written`."""
    table = pa.Table.from_pandas(df, preserve_index=False)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def read_written(path: Path) -> pd.DataFrame:
    """The rows that were written, with their types."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        found: pd.DataFrame = reader.read_all().to_pandas()
        return found


def _rebuilt(chain: list[dict[str, Any]]) -> BaseException:
    """An error of another process as one of this one, with what it was raised from."""
    rebuilt = [_error(one) for one in chain]
    for error, cause in pairwise(rebuilt):
        error.__cause__ = cause
    return rebuilt[0]


def _error(plain: dict[str, Any]) -> BaseException:
    for name in plain["ours"]:
        if hasattr(errors, name):
            made: BaseException = getattr(errors, name)(plain["message"], remedy=plain["remedy"])
            return made
    kind = next((_BUILTIN[name] for name in plain["kinds"] if name in _BUILTIN), None)
    if kind is not None and issubclass(kind, OSError) and plain["errno"] is not None:
        return kind(plain["errno"], plain["message"])
    return kind(plain["message"]) if kind else ModelError(f"{plain['kinds'][0]}: {plain['message']}")
