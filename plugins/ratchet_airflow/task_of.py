"""The task of Airflow that follows a stage of a run, or of a rebuild of a version, and when a task is over."""

from ratchet.contracts.request import RunPlan

REPRODUCE_DAG, REPRODUCE_TASK = "ratchet_reproduce", "reproduce"
"""The one task of all stages of a rebuild."""
OVER = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""The states of a task that has ended, in Airflow's words."""


def task_of(plan: RunPlan, stage: str) -> tuple[str, str, str]:
    """Its DAG, the run of that, and its name."""
    if plan.kind == "reproduction":
        return REPRODUCE_DAG, plan.origin, REPRODUCE_TASK
    return plan.spec.name, plan.origin, stage
