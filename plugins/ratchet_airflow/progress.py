"""Events of a stage as lines of a task's log."""

import logging

from tasks.chain.events import Event

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_SHOWN_BEFORE = frozenset({"done", "total"})
_ELSEWHERE = frozenset({"cause", "remedy", "code"})


def level_of(event: Event) -> int:
    """The event's level as Python's logging has it."""
    return _LEVELS.get(event.level, logging.INFO)


def line_of(event: Event) -> str:
    """`[ 40%] epoch 2 of 3 (loss 0.31)`: one line, and for failures the traceback below it."""
    fields = {key: value for key, value in event.fields.items() if key not in _SHOWN_BEFORE | _ELSEWHERE}
    traceback = fields.pop("traceback", None)
    shown = ", ".join(f"{key} {_number(value)}" for key, value in fields.items() if str(value) not in event.message)
    line = f"{_share(event)}{event.message}{f' ({shown})' if shown else ''}"
    return f"{line}\n{traceback}" if traceback else line


def _share(event: Event) -> str:
    done, total = event.fields.get("done"), event.fields.get("total")
    if not isinstance(done, (int, float)) or not isinstance(total, (int, float)) or total <= 0:
        return ""
    return f"[{min(1.0, max(0.0, done / total)):4.0%}] "


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
