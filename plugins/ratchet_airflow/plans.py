"""The plan of a run of Airflow, under each id that the store may know the run by."""

from collections.abc import Mapping
from typing import Any

from ratchet.contracts import paths
from ratchet.contracts.request import RunPlan
from ratchet_airflow import settings
from ratchet_airflow.run_id import bare_run_id, store_run_id

PLAN = "plan"
"""The task that makes the plan. Its value is the plan's address."""


def find_plan(pipeline: str, run_id: str, context: Mapping[str, Any] | None = None) -> RunPlan:
    """The plan of a run. Raises ConfigurationError where there is none.

    context: a task's. With it the run is also found after the name of the installation has changed.
    """
    from ratchet.runs.history import plan_of
    from ratchet.runs.planning import load_plan
    from ratchet.store.opening import open_store

    uri = settings.read().store
    store, own = open_store(uri), store_run_id(run_id)
    if (found := plan_of(store, pipeline, own)) is not None:
        return found
    # A run that a release before ids of installations planned, or one that was planned under another name.
    for earlier in filter(None, (bare_run_id(run_id), _planned(context))):
        found = plan_of(store, pipeline, earlier)
        if found is not None and found.origin in {run_id, ""}:
            return found
    return load_plan(uri, pipeline, own)


def _planned(context: Mapping[str, Any] | None) -> str | None:
    """The id that the task `plan` of this run gave it."""
    task: Any = (context or {}).get("ti")
    address = task.xcom_pull(task_ids=PLAN) if hasattr(task, "xcom_pull") else None
    if not isinstance(address, str):
        return None
    _, found, key = address.rpartition("/runs/")
    return paths.run_of_plan(f"runs/{key}") if found and "/" in key else None
