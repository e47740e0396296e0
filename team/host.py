"""The name of a host that only has a worker: Airflow gets the logs of its tasks from there."""

import os


def address() -> str:
    """The address under which the main host reaches this one."""
    return os.environ["RATCHET_LISTEN"]
