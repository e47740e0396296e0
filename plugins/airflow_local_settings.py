"""Airflow's cluster policies for Ratchet. Airflow looks for a module of this name on its path."""

import gc
from typing import Any

from ratchet_airflow.pools import yield_to_nights

__all__ = ["task_instance_mutation_hook"]

# Each Airflow process makes hundreds of thousands of permanent objects while it starts. The default threshold would
# spend a fifth of that time on garbage collection.
gc.set_threshold(50_000)


def task_instance_mutation_hook(task_instance: Any, dag_run: Any = None) -> None:
    """Airflow's scheduler calls this for each task instance that it creates."""
    yield_to_nights(task_instance, dag_run)
