"""Airflow's cluster policies for Ratchet: the entry point `airflow.policy` of the wheel."""

from typing import Any

from airflow import settings
from airflow.policies import hookimpl

from ratchet_airflow.pools import yield_to_nights

# Airflow's scheduler calls this hook only while `is_noop` is false. It sets that itself only where it finds a module
# airflow_local_settings.
_hook: Any = settings.task_instance_mutation_hook
_hook.is_noop = False


@hookimpl
def task_instance_mutation_hook(task_instance: Any, dag_run: Any) -> None:
    """Called in the scheduler for each task that it makes."""
    yield_to_nights(task_instance, dag_run)
