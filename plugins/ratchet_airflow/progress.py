"""Events of a stage as records of a task's log: a level, a line, and its fields."""

import logging
from typing import Any

from ratchet.runs.events import Event

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_ELSEWHERE = frozenset({"done", "total", "cause", "remedy", "code", "traceback"})
_TAKEN = frozenset({"event", "level", "timestamp", "logger", "exc_info", "stack_info"})
"""Names with another meaning in Airflow's own records."""


def level_of(event: Event) -> int:
    """The event's level, as a number of Python's logging."""
    return _LEVELS.get(event.level, logging.INFO)


def line_of(event: Event) -> str:
    """One line, such as `[ 40%] epoch 2 of 3`; below it the traceback, if there is one."""
    traceback = event.fields.get("traceback")
    line = f"{_share(event)}{event.message}"
    return f"{line}\n{traceback}" if traceback else line


def fields_of(event: Event) -> dict[str, Any]:
    """The fields of the record: epoch, step, loss, the stream of a text that was not on standard output."""
    return {
        (f"stage_{key}" if key in _TAKEN else key): round(value, 6) if isinstance(value, float) else value
        for key, value in event.fields.items()
        if key not in _ELSEWHERE and value != "stdout"
    }


def _share(event: Event) -> str:
    done, total = event.fields.get("done"), event.fields.get("total")
    if not isinstance(done, (int, float)) or not isinstance(total, (int, float)) or total <= 0:
        return ""
    return f"[{min(1.0, max(0.0, done / total)):4.0%}] "
