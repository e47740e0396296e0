"""What Airflow says of another task of the run, for a task or a trigger that asks while it runs.

A change here violates the promise of the project when a task counts as over because Airflow is away.
"""

from contextlib import suppress

from airflow.sdk.exceptions import AirflowRuntimeError

from ratchet_airflow.task_of import OVER


def task_state(dag_id: str, run_id: str, task_id: str, number: int | None = None) -> str:
    """The state of a task. number: of one of a mapped task. Raises AirflowRuntimeError where nobody says it."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    name = task_id if number is None or number < 0 else f"{task_id}_{number}"
    states = RuntimeTaskInstance.get_task_states(dag_id=dag_id, task_ids=[task_id], run_ids=[run_id])
    return str(states.get(run_id, {}).get(name))


def is_over(dag_id: str, run_id: str, task_id: str) -> bool:
    """Whether Airflow says that a task has ended."""
    with suppress(AirflowRuntimeError):
        return task_state(dag_id, run_id, task_id) in OVER
    return False
