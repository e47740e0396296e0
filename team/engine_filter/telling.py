"""The filter's log: one JSON line for each refusal, each container made, and its own coming and going."""

import json
import sys
from datetime import UTC, datetime
from typing import Any


def tell(event: str, **facts: Any) -> None:
    """Write one line. Nothing that may be a secret is ever handed here: no environment, no command, no file."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    sys.stdout.write(json.dumps({"time": time, "event": event, **facts}) + "\n")
    sys.stdout.flush()
