"""The chain of dates that a backfill runs, one after the other. Each date is measured against the winners before it.

Airflow does not say to a task which backfill its run belongs to. So a run goes on with the chain of the backfill run
that was planned last before it, if that was of an earlier date, of the same settings, and not long ago. A run that is
cleared or processed again keeps its plan, and so its chain. Where the plan of that run is damaged, the line of the run
has its chain, and the winners of the chain have its settings.

A change here violates the promise of the project when one damaged plan ends the runs after it, or lets a date forget
the winners of its backfill.
"""

import logging
from collections.abc import Mapping
from datetime import date, datetime, timedelta

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.run_index import IndexedRun
from ratchet.runs.history import plan_of
from ratchet.runs.run_index import newest_runs
from ratchet.store.base import Store
from ratchet.store.ledger import records

GAP = timedelta(hours=48)
"""Between the plans of two dates of one backfill. A longer pause begins a new chain."""
_log = logging.getLogger(__name__)


def chain_of(
    store: Store, pipeline: str, model: str, data_date: date, *, overrides: Mapping[str, str], now: datetime
) -> str:
    """The chain of a backfill run that is planned now. model: the name of the ledger.

    Raises OtherRelease where a newer release planned the run before it.
    """
    for run in newest_runs(store, pipeline):
        if run.kind != "backfill":
            continue
        settings = _settings(store, pipeline, model, run)
        if settings is None:
            continue
        if run.chain and run.day < data_date and settings == dict(overrides) and now - run.created <= GAP:
            return run.chain
        break
    return f"backfill-{data_date}-{now:%Y%m%dT%H%M%S%f}"


def _settings(store: Store, pipeline: str, model: str, run: IndexedRun) -> dict[str, str] | None:
    """The overrides of a run and its chain; None where its plan is gone, or damaged in a chain without a winner.

    In such a chain there is nothing that a later date has to be measured against.
    """
    try:
        plan = plan_of(store, pipeline, run.run_id)
    except CorruptArtifact as error:
        winners = records(store, model, place=paths.shadow(model, run.chain))
        instead = "the settings of its chain are those of its winners" if winners else "the run before it counts"
        said = "run %s of %s, a date of a backfill: its plan cannot be read; for the chain of this run, %s: %s"
        _log.warning(said, run.run_id, run.day, instead, error)
        return winners[-1].overrides if winners else None
    return plan.overrides if plan is not None else None
