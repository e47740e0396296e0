"""The reaper: a small DAG that ends containers that no run of this Airflow follows any more."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet_airflow import settings
from ratchet_airflow.listener import REAPER
from ratchet_airflow.run_id import is_foreign

_EVERY = "*/5 * * * *"
_AGAIN = timedelta(seconds=30)
"""The delay of a retry. Airflow's default of five minutes would delay the next run, which waits for this one."""
_OVER = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
_PAGE = """\
Ends containers of stages that no task follows any more: for example after a worker was killed while it stopped its
stage. It touches only containers with the labels of this installation, and none whose task runs or will be retried.
There is one task for each engine: one on the default queue, and one on each queue whose workers use another engine.
Other hosts do not begin what a container of this engine may still compute; so it also says which containers are gone.
"""


class ReapOperator(BaseOperator):
    """Ends orphans, and frees the leases of containers that are gone. Its value is the number of orphans."""

    ui_color = "#fbe9e7"

    def execute(self, context: Mapping[str, Any]) -> int:
        """Find the orphans and end them. Raises Unavailable while an engine that is set up here does not answer."""
        from ratchet.runners.choice import await_engine, engine_expected
        from ratchet.runners.docker import DockerRunner
        from ratchet.runners.engine import engine_available
        from ratchet.runners.following import PATIENCE_S
        from ratchet.runs.history import plan_of
        from ratchet.runs.reaping import free_leases, orphans, reap
        from ratchet.store.opening import open_store

        _look_for_the_watch()
        if engine_expected(environment().runner):
            await_engine(PATIENCE_S)
        elif reason := engine_available():
            self.log.info("stages run as processes, and no Docker engine answers (%s), so no containers", reason)
            return 0
        task, store, runner = context["ti"], open_store(settings.read().store), DockerRunner()

        def is_alive(pipeline: str, run_id: str, stage: str) -> bool:
            if is_foreign(run_id):
                return True  # its own Airflow knows
            try:
                plan = plan_of(store, pipeline, run_id)
            except (CorruptArtifact, OtherRelease) as error:
                self.log.warning("the container of run %s stays: %s", run_id, error)
                return True
            if plan is None or not plan.origin:
                return False
            states = task.get_task_states(dag_id=pipeline, task_ids=[stage], run_ids=[plan.origin])
            state = states.get(plan.origin, {}).get(stage, "success")
            return state not in _OVER

        found = orphans(store, runner, is_alive)
        for orphan in found:
            self.log.warning(
                "ending %s of %s, run %s: no task follows it", orphan.stage, orphan.pipeline, orphan.run_id
            )
            reap(runner, orphan)
        for freed in free_leases(store, runner):
            self.log.info("%s: its container is gone, and another host need not wait for it any more", freed)
        return len(found)


def _look_for_the_watch() -> None:
    """Alert people if nobody has started it. Whatever fails here, the reaper goes on."""
    from ratchet.store.opening import open_store
    from ratchet_airflow.watch import presence
    from ratchet_airflow.watch.guard import Guard

    with Guard("cannot see whether a watch is running"):
        presence.report(open_store(settings.read().store))


def build() -> DAG:
    """The DAG. It is active from the start, also when the pipelines are paused.

    One task is on the default queue, and one on each queue in RATCHET_REAP_QUEUES; they run independently.
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
        tags=["ratchet-upkeep"],  # not the tag of pipelines, whose runs the watch scans
    )
    queues = environment().reap_queues
    tasks: dict[str, dict[str, Any]] = {"reap": {}, **{f"reap_{name}": {"queue": name} for name in queues}}
    handling: dict[str, Any] = {"retries": 1, "retry_delay": _AGAIN, "execution_timeout": timedelta(minutes=8)}
    for task_id, where in tasks.items():
        dag.add_task(ReapOperator(task_id=task_id, **where, **handling))
    return dag
