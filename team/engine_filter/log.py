"""The filter's log: one JSON line for each refusal, and for each request that changes a container."""

import json
import sys
from datetime import UTC, datetime
from typing import Any


def log_event(event: str, **facts: Any) -> None:
    """Write one line. No caller passes anything that may be secret: no environment, no command, no file."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    sys.stdout.write(json.dumps({"time": time, "event": event, **facts}) + "\n")
    sys.stdout.flush()
