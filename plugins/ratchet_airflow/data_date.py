"""The data date of an Airflow run, from its fields and the form; `ratchet.contracts.dates` has the rule."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from ratchet.contracts import dates
from ratchet.contracts.request import RunKind

_KINDS: dict[str, RunKind] = {"scheduled": "scheduled", "backfill": "backfill"}


def data_date(context: Mapping[str, Any], timezone: str) -> date:
    """The data date of the run that a task's context belongs to, in days of the pipeline's time zone.

    Raises ConfigurationError if the form has something that is not a date, or a date in the future.
    """
    run = context["dag_run"]
    start, end = run.data_interval_start, run.data_interval_end
    return dates.data_date(
        run_after=run.run_after,
        timezone=timezone,
        chosen_date=context["params"].get("date"),
        partition_key=run.partition_key,
        interval=(start, end) if start and end else None,
        logical_date=run.logical_date,
    )


def run_kind(context: Mapping[str, Any]) -> RunKind:
    """What made the run: the schedule, a backfill, or a person or another program."""
    run_type = context["dag_run"].run_type
    return _KINDS.get(getattr(run_type, "value", run_type), "manual")
