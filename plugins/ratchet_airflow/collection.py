"""The DAG `ratchet-gc`: once a week it deletes what nothing in the store needs any more."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator

from ratchet.contracts.environment import environment, variable
from ratchet_airflow import settings
from ratchet_airflow.collection_time import COLLECTION, EVERY

_AGAIN = timedelta(hours=2)
"""A pipeline that could not be checked may be well by then."""
_PAGE = f"""\
Deletes what nothing in the store needs any more, as `ratchet gc --apply` does. What stays, and for how long, is set by
`{variable("gc")}`; without `weekly` in it there is no such DAG. The log says what went, and why, and what was left. A
pipeline of which something cannot be read keeps everything, and the task fails with the reason, and each receiver
of failures is alerted to it.
"""


class CollectOperator(BaseOperator):
    """Collects all pipelines. Its value is the number of bytes that went."""

    ui_color = "#eceff1"

    def execute(self, context: Mapping[str, Any]) -> int:
        """Collect. Raises Unavailable, after everything else went, with the pipelines that could not be checked."""
        from ratchet.collection.collector import Collector
        from ratchet.collection.words import lines, total, unchecked_error
        from ratchet.store.opening import open_store
        from ratchet_airflow.watch import presence

        here, policy = settings.read(), environment().gc
        store = open_store(here.store)
        found = Collector(store, here.tracking, policy, apply=True).collect()
        presence.mark_collection(store)
        for line in lines(found, policy, apply=True):
            self.log.info("%s", line)
        if (error := unchecked_error(found)) is not None:
            raise error
        return total(found).bytes


def say_failed(context: Mapping[str, Any]) -> None:
    """Alert each receiver of failures: the watch looks at runs of pipelines alone, and the store grows meanwhile."""
    from ratchet.contracts.masking import mask
    from ratchet.outbox.outbox import utc
    from ratchet_airflow.watch.waiting import alert_once_a_day

    cause = mask(str(context.get("exception") or "its process was killed, or took too long"))
    body = (
        f"Cause: {cause}\nWhat could not be checked is not deleted, and grows\n"
        f"What to do: what `ratchet gc` says; then clear the task of the DAG {COLLECTION}, or wait for Sunday"
    )
    alert_once_a_day("gc", "Ratchet: the store was not collected", body, utc())


def build() -> DAG | None:
    """The DAG, active from the start; None where the policy does not ask for it."""
    if not environment().gc.weekly:
        return None
    dag = DAG(
        dag_id=COLLECTION,
        description="Deletes what nothing in the store needs any more",
        doc_md=_PAGE,
        schedule=EVERY,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        dagrun_timeout=timedelta(days=2),
        tags=["ratchet-upkeep"],  # not the tag of pipelines, whose runs the watch scans
    )
    dag.add_task(
        CollectOperator(
            task_id="collect",
            retries=3,
            retry_delay=_AGAIN,
            execution_timeout=timedelta(hours=8),
            on_failure_callback=say_failed,
        )
    )
    return dag
