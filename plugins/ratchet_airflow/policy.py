"""Airflow's cluster policies for Ratchet: the entry point `airflow.policy` of the wheel."""

from typing import Any

from airflow.policies import hookimpl

from ratchet_airflow.pools import yield_to_nights


@hookimpl
def task_instance_mutation_hook(task_instance: Any, dag_run: Any) -> None:
    """Called in the scheduler for each task that it makes."""
    yield_to_nights(task_instance, dag_run)
