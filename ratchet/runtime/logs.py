"""The log of a stage: one JSON object for each line, on standard output. Orchestrators read it.

Every line has `time` (UTC), `level`, `stage`, `event` and `message`; progress and failures have further fields.
"""

import json
import logging
import sys
import threading
import traceback
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from ratchet.contracts.errors import CorruptArtifact, NoAnswer, OtherCode, RatchetError
from ratchet.contracts.exits import MEANINGS, ExitCode

Level = Literal["debug", "info", "warning", "error"]


class StageLog:
    """Writes the events of one stage. Several threads may use it."""

    def __init__(self, stage: str, stream: TextIO | None = None) -> None:
        self.stage = stage
        self._stream = stream or sys.stdout
        self._lock = threading.Lock()

    def event(self, event: str, message: str, *, level: Level = "info", **fields: Any) -> None:
        """Write one line. fields: JSON values; any other value is written as its text."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "stage": self.stage,
            "event": event,
            "message": message,
            **fields,
        }
        written = json.dumps(line, default=str, ensure_ascii=False) + "\n"
        with self._lock:
            self._stream.write(written)  # in one piece: several processes of a training write to the same pipe
            self._stream.flush()

    def info(self, message: str, **fields: Any) -> None:
        """Log information for a person."""
        self.event("info", message, **fields)

    def warning(self, message: str, **fields: Any) -> None:
        """Log a problem that a person should check, although the stage goes on."""
        self.event("warning", message, level="warning", **fields)

    def progress(self, message: str, *, done: float, total: float, **fields: Any) -> None:
        """Log the progress of the stage: `done` of `total`, in any unit; fields: such as rates and losses."""
        self.event("progress", message, done=done, total=total, **fields)

    def failure(self, error: BaseException) -> ExitCode:
        """Log why the stage fails, with the traceback of a bug. Returns the exit code to end with."""
        code = code_of(error)
        cause = error.cause if isinstance(error, RatchetError) else f"{type(error).__name__}: {error}"
        remedy = error.remedy if isinstance(error, RatchetError) else MEANINGS[code].remedy
        fields: dict[str, Any] = {"code": int(code), "cause": cause, "remedy": remedy}
        if isinstance(error, CorruptArtifact):
            fields["damaged"] = True
        if isinstance(error, OtherCode):
            fields["other_code"] = True
        if isinstance(error, NoAnswer):
            fields["no_answer"] = True
        if code is ExitCode.BUG:
            fields["traceback"] = "".join(traceback.format_exception(error))
        self.event("failure", f"{cause}; to do: {remedy}" if remedy else cause, level="error", **fields)
        return code


def code_of(error: BaseException) -> ExitCode:
    """The exit code of a stage that ends with an error."""
    if isinstance(error, RatchetError):
        return error.code
    return ExitCode.OUT_OF_MEMORY if isinstance(error, MemoryError) else ExitCode.BUG


class _Forward(logging.Handler):
    """Writes Python's log records as events."""

    def __init__(self, log: StageLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        self._log.event("library", record.getMessage(), level=level, logger=record.name)


def forward_library_logs(log: StageLog) -> None:
    """Write the log records and warnings of libraries, from level WARNING on, to the stage's log."""
    logging.captureWarnings(capture=True)
    logging.getLogger().addHandler(_Forward(log))
