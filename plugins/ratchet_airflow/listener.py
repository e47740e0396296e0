"""The hook that Airflow's scheduler calls at its start: it loads what tasks need. The watch is a server of its own."""

import sys
from importlib import import_module

from airflow.listeners import hookimpl

_OF_TASKS = (
    "ratchet_airflow.dag",
    "ratchet_airflow.folders",
    "ratchet_airflow.container_trigger",
    "ratchet_airflow.hosts",
    "ratchet.runs.attempt",
    "ratchet.runs.left_elsewhere",
    "ratchet.runs.left_job",
    "ratchet.runs.leftovers",
    "ratchet.runs.stage_record",
    "ratchet.runs.planning",
    "ratchet.runs.upgrading",
    "ratchet.runners.choice",
)
"""What each task imports. Loaded once in the scheduler, it saves 0.14 s of processor time in each forked task."""


@hookimpl
def on_starting(component: object) -> None:
    """In a scheduler, load what its tasks need before it forks them. A task's process has another component."""
    if type(component).__name__ == "Job" and sys.argv[1:2] == ["scheduler"]:
        load_for_tasks()


def load_for_tasks() -> None:
    """Load what each task would load for itself. After a change of this code, restart the scheduler."""
    for module in _OF_TASKS:
        import_module(module)
