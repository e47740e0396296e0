"""Airflow's cluster policies for Ratchet. Airflow looks for a module of this name on its path.

Where the wheel is installed Airflow finds them by their entry point (`ratchet_airflow.policy`), and would call both.
"""

from importlib.metadata import entry_points
from typing import Any

from ratchet_airflow.pools import yield_to_nights

__all__: list[str] = []
"""What Airflow takes from here. Without the list it would take everything, also what is imported."""

if not entry_points(group="airflow.policy", name="ratchet"):

    def task_instance_mutation_hook(task_instance: Any, dag_run: Any = None) -> None:
        """Airflow's scheduler calls this for each task instance that it creates."""
        yield_to_nights(task_instance, dag_run)

    __all__ += ["task_instance_mutation_hook"]
