"""The reaper: a small DAG that ends containers which no run of this Airflow follows any more."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator

from ratchet.contracts.environment import environment
from ratchet_airflow import settings
from ratchet_airflow.listener import REAPER

_EVERY = "*/5 * * * *"
_AGAIN = timedelta(seconds=30)
"""Until a failed try's next one. Airflow's own five minutes would hold up the next run, which waits for this one."""
_OVER = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
_PAGE = """\
Ends containers of stages that nobody follows any more: those whose task ended without them, for example because its
worker was killed in the middle of stopping it. It looks only at containers with the labels of this installation.
A container whose task runs, or is about to be tried again, is left alone. There is a task for each engine: one on the
default queue, and one on each queue whose workers have an engine of their own.
"""


class ReapOperator(BaseOperator):
    """Ends orphans. Its value is how many there were."""

    ui_color = "#fbe9e7"

    def execute(self, context: Mapping[str, Any]) -> int:
        """Look once."""
        from ratchet.runners.docker import DockerRunner
        from ratchet.runners.engine import engine_available
        from ratchet.runs.history import plan_of
        from ratchet.runs.reaping import orphans, reap
        from ratchet.store.opening import open_store

        if reason := engine_available():
            self.log.info("no Docker engine (%s), so there are no containers", reason)
            return 0
        task, store, runner = context["ti"], open_store(settings.read().store), DockerRunner()

        def is_alive(pipeline: str, run_id: str, stage: str) -> bool:
            plan = plan_of(store, pipeline, run_id)
            if plan is None or not plan.origin:
                return False
            states = task.get_task_states(dag_id=pipeline, task_ids=[stage], run_ids=[plan.origin])
            state = states.get(plan.origin, {}).get(stage, "success")
            return state not in _OVER

        found = orphans(store, runner, is_alive)
        for orphan in found:
            self.log.warning("ending %s of %s, run %s: nobody follows it", orphan.stage, orphan.pipeline, orphan.run_id)
            reap(runner, orphan)
        return len(found)


def build() -> DAG:
    """The DAG. It runs from the start, also when the pipelines are paused.

    One task is on the default queue, and one on each that RATCHET_REAP_QUEUES names; none waits for another.
    """
    dag = DAG(
        dag_id=REAPER,
        description="Ends containers that no run follows any more",
        doc_md=_PAGE,
        schedule=_EVERY,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        dagrun_timeout=timedelta(minutes=10),
        tags=["ratchet-upkeep"],  # not that of pipelines, whose runs the watch looks at
    )
    tasks: dict[str, dict[str, Any]] = {
        "reap": {},
        **{f"reap_{name}": {"queue": name} for name in environment().reap_queues},
    }
    handling: dict[str, Any] = {"retries": 1, "retry_delay": _AGAIN, "execution_timeout": timedelta(minutes=8)}
    for task_id, where in tasks.items():
        dag.add_task(ReapOperator(task_id=task_id, **where, **handling))
    return dag
