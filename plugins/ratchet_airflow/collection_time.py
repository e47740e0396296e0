"""The name of the DAG that collects the store, and when it runs, for the DAG and for who misses its runs."""

COLLECTION = "ratchet-gc"
"""The DAG of upkeep, which belongs to no pipeline."""
_HOUR, _MINUTE = 12, 30
"""Of Sunday noon, when nights are over."""
EVERY = f"{_MINUTE} {_HOUR} * * 0"
WHEN = f"Sundays at {_HOUR:02d}:{_MINUTE:02d} UTC"
