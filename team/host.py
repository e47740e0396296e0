"""The name of a host that only works, for Airflow to ask it for the logs of its tasks."""

import os


def address() -> str:
    """The address under which the main host reaches this one."""
    return os.environ["RATCHET_LISTEN"]
