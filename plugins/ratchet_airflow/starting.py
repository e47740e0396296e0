"""What has to stand before the scheduler schedules anything. Registered as a listener of Airflow's components."""

import logging

from airflow.listeners import hookimpl

from ratchet_airflow.pools import keep_in_step

_log = logging.getLogger(__name__)


@hookimpl
def on_starting(component: object) -> None:
    """Called in every job of Airflow as it starts."""
    if getattr(component, "job_type", "") == "SchedulerJob":
        keep_in_step()
        _log.info("Ratchet's pools are in step")
