"""The log of a stage: one JSON object a line, on standard output, for orchestrators to read.

Every line has `time` (UTC), `level`, `stage`, `event` and `message`; progress and failures have fields of their own.
"""

import json
import logging
import sys
import threading
import traceback
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.exits import MEANINGS, ExitCode

Level = Literal["debug", "info", "warning", "error"]


class StageLog:
    """Writes events of one stage. Safe to use from several threads."""

    def __init__(self, stage: str, stream: TextIO | None = None) -> None:
        self.stage = stage
        self._stream = stream or sys.stdout
        self._lock = threading.Lock()

    def event(self, event: str, message: str, *, level: Level = "info", **fields: Any) -> None:
        """One line. `fields` have to be plain JSON values; anything else is written as its text."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "stage": self.stage,
            "event": event,
            "message": message,
            **fields,
        }
        with self._lock:
            print(json.dumps(line, default=str, ensure_ascii=False), file=self._stream, flush=True)

    def info(self, message: str, **fields: Any) -> None:
        """What a person may want to know."""
        self.event("info", message, **fields)

    def warning(self, message: str, **fields: Any) -> None:
        """What a person should look at, though the stage goes on."""
        self.event("warning", message, level="warning", **fields)

    def progress(self, message: str, *, done: float, total: float, **fields: Any) -> None:
        """How far the stage is: `done` of `total`, in any unit; rates and losses as fields."""
        self.event("progress", message, done=done, total=total, **fields)

    def failure(self, error: BaseException) -> ExitCode:
        """Say why the stage ends, with its traceback where that helps, and return the exit code to end with."""
        code = _code_of(error)
        cause = error.cause if isinstance(error, RatchetError) else f"{type(error).__name__}: {error}"
        remedy = error.remedy if isinstance(error, RatchetError) else MEANINGS[code].remedy
        fields: dict[str, Any] = {"code": int(code), "cause": cause, "remedy": remedy}
        if code is ExitCode.BUG:
            fields["traceback"] = "".join(traceback.format_exception(error))
        self.event("failure", f"{cause}; to do: {remedy}" if remedy else cause, level="error", **fields)
        return code


def _code_of(error: BaseException) -> ExitCode:
    if isinstance(error, RatchetError):
        return error.code
    return ExitCode.OUT_OF_MEMORY if isinstance(error, MemoryError) else ExitCode.BUG


class _Forward(logging.Handler):
    """Python's own log records as events."""

    def __init__(self, log: StageLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        self._log.event("library", record.getMessage(), level=level, logger=record.name)


def forward_library_logs(log: StageLog) -> None:
    """Send what libraries log or warn of, from WARNING on, through the stage's log."""
    logging.captureWarnings(capture=True)
    logging.getLogger().addHandler(_Forward(log))
