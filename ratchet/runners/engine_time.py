"""Times as the engine writes them."""

from datetime import datetime


def seconds_of(written: str) -> float:
    """Whole seconds since 1970 of a time as the engine writes it, with nanoseconds and in UTC."""
    return datetime.fromisoformat(written[:19] + "+00:00").timestamp()
