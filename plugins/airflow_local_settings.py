"""Airflow's cluster policies for Ratchet. Airflow looks for a module of this name on its path.

Where the wheel is installed Airflow finds them by their entry point (`ratchet_airflow.policy`), and would call both.
"""

import gc
from importlib.metadata import entry_points
from typing import Any

from ratchet_airflow.pools import yield_to_nights

# Each process of Airflow makes hundreds of thousands of objects that stay, before it does anything; to look at them as
# often as usual takes a fifth of its start.
gc.set_threshold(50_000)

if not entry_points(group="airflow.policy", name="ratchet"):

    def task_instance_mutation_hook(task_instance: Any, dag_run: Any = None) -> None:
        """Called in the scheduler for each task that it makes."""
        yield_to_nights(task_instance, dag_run)

    __all__ = ["task_instance_mutation_hook"]
