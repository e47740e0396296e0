"""The chain of dates that a backfill runs, one after the other. Each date is measured against the winners before it.

Airflow does not say to a task which backfill its run belongs to. So a run goes on with the chain of the backfill run
that was planned last before it, if that was of an earlier date, of the same settings, and not long ago. A run that is
cleared or processed again keeps its plan, and so its chain.
"""

from collections.abc import Mapping
from datetime import date, datetime, timedelta

from ratchet.contracts.request import RunPlan
from ratchet.runs.history import plan_of
from ratchet.runs.run_index import newest_runs
from ratchet.store.base import Store

GAP = timedelta(hours=48)
"""Between the plans of two dates of one backfill. A longer pause begins a new chain."""


def chain_of(store: Store, pipeline: str, data_date: date, *, overrides: Mapping[str, str], now: datetime) -> str:
    """The chain of a backfill run that is planned now."""
    before = _before(store, pipeline)
    if (
        before is not None
        and before.chain
        and before.data_date < data_date
        and before.overrides == dict(overrides)
        and now - before.created <= GAP
    ):
        return before.chain
    return f"backfill-{data_date}-{now:%Y%m%dT%H%M%S%f}"


def _before(store: Store, pipeline: str) -> RunPlan | None:
    """The backfill run that was planned last."""
    runs = (run for run in newest_runs(store, pipeline) if run.kind == "backfill")
    plans = (plan_of(store, pipeline, run.run_id) for run in runs)
    return next((plan for plan in plans if plan is not None), None)
