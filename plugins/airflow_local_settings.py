"""Airflow's cluster policies for Ratchet. Airflow looks for a module of this name on its path."""

import gc
from typing import Any

from ratchet_airflow.pools import yield_to_nights

__all__ = ["task_instance_mutation_hook"]

# Each process of Airflow makes hundreds of thousands of objects that stay, before it does anything; to look at them as
# often as usual takes a fifth of its start.
gc.set_threshold(50_000)


def task_instance_mutation_hook(task_instance: Any, dag_run: Any = None) -> None:
    """Called in the scheduler for each task that it makes."""
    yield_to_nights(task_instance, dag_run)
