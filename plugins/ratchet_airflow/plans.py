"""The plan of a run of Airflow, under each id that the store may know the run by."""

from collections.abc import Mapping
from typing import Any

from ratchet.contracts import paths
from ratchet.contracts.errors import Unavailable
from ratchet.contracts.request import RunPlan
from ratchet_airflow import settings
from ratchet_airflow.run_id import bare_run_id, store_run_id

PLAN = "plan"
"""The task that makes the plan. Its value is the plan's address."""
_PLAN_STEPS = 4
"""The steps of a plan's key, which an address ends with."""


def find_plan(pipeline: str, run_id: str, context: Mapping[str, Any] | None = None) -> RunPlan:
    """The plan of a run. Raises ConfigurationError where there is none, and Unavailable where there was one.

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
    if (address := _address(context)) is not None:
        raise Unavailable(
            f"{pipeline}: the plan {address} of this run is not in the store {uri}",
            remedy="check that the store is mounted, and whole; run again if no retry follows",
        )
    return load_plan(uri, pipeline, own)


def _planned(context: Mapping[str, Any] | None) -> str | None:
    """The id that the task `plan` of this run gave it."""
    address = _address(context)
    if address is None:
        return None
    steps = address.split("/")[-_PLAN_STEPS:]
    return paths.run_of_plan("/".join(steps)) if len(steps) == _PLAN_STEPS else None


def _address(context: Mapping[str, Any] | None) -> str | None:
    """The value of the task `plan` of this run."""
    task: Any = (context or {}).get("ti")
    address = task.xcom_pull(task_ids=PLAN) if hasattr(task, "xcom_pull") else None
    return address if isinstance(address, str) else None
