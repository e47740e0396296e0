"""The log of a running stage as events: a JSON line is an event of ours, and any other line plain text."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ratchet.runners.log.lines import Line

_LEVELS = frozenset({"debug", "info", "warning", "error"})
_OWN = frozenset({"time", "level", "stage", "event", "message"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a stage's log, or of its attempt.

    name: info, warning, progress, failure, text, ...; `attempt` for what the attempt itself says. fields: what the line
    adds. time: of the event, as the stage wrote it; empty for text.
    """

    name: str
    level: str
    message: str
    time: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


def parse(line: Line) -> Event:
    """The event of one line. A line that is no event of ours is text that a library or the pipeline's code printed."""
    try:
        found = json.loads(line.text) if line.stream == "stdout" else None
    except (ValueError, RecursionError):  # RecursionError: thousands of brackets in one line
        found = None
    if isinstance(found, dict) and isinstance(found.get("event"), str) and isinstance(found.get("message"), str):
        level = found.get("level")
        return Event(
            name=found["event"],
            level=level if level in _LEVELS else "info",
            message=found["message"],
            time=str(found.get("time", "")),
            fields={key: value for key, value in found.items() if key not in _OWN},
        )
    return Event(name="text", level="info", message=line.text, fields={"stream": line.stream})
