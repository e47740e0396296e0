"""The filter's log: one JSON line for each refusal, and for each request that changes a container.

A change here violates the promise of the team set-up when a request that reached the engine leaves no line.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from team.engine_filter.refusal import EngineAway


def log_event(event: str, **facts: Any) -> None:
    """Write one line. No caller passes anything that may be secret: no environment, no command, no file."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    sys.stdout.write(json.dumps({"time": time, "event": event, **facts}) + "\n")
    sys.stdout.flush()


@contextmanager
def logged(event: str, **facts: Any) -> Iterator[dict[str, Any]]:
    """Write the line of what the block asks the engine for; its value takes further facts. Without an event: none.

    Also where nobody hears whether the engine did it, with `unanswered`: the client has left meanwhile, or the engine
    has gone. Else a client that leaves at once would leave no trace.
    """
    further: dict[str, Any] = {}
    try:
        yield further
    except (asyncio.CancelledError, EngineAway):
        further["unanswered"] = True
        raise
    except BaseException:
        event = ""  # it was refused, here or by the engine
        raise
    finally:
        if event:
            log_event(event, **facts, **further)
