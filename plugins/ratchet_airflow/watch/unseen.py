"""Pipelines that Airflow should show the watch, and does not: a user who may read some DAGs gets fewer rows, no error.

A change here violates the promise of the project when the watch takes what it may not see for what is not there, and
nobody hears of it.
"""

import time
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from ratchet.contracts import paths
from ratchet.contracts.environment import variable
from ratchet.outbox.incidents import names
from ratchet.store.base import Store
from ratchet_airflow import folders
from ratchet_airflow.alerts.by_hand import root
from ratchet_airflow.watch.waiting import UNSEEN, alert_once_a_day

_PATIENCE_S = 3600.0
"""A DAG that was deleted, or whose file is new, is parsed long before."""
_RECENT = timedelta(days=3)
"""A pipeline that has planned no run for longer may be none of this Airflow."""


class Unseen:
    """What it remembers between two looks: since when Airflow has not shown a pipeline."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def look(self, store: Store, seen: Collection[str], now: datetime) -> list[str]:
        """The pipelines with a file and recent runs that Airflow has not shown for long, which people hear once a day.

        seen: the names of the DAGs that Airflow shows.
        """
        there = {found.spec.name for found in folders.read(root())[0]}
        self._since = {name: self._since.get(name, self._clock()) for name in there.difference(seen)}
        due = [name for name in sorted(self._since) if self._clock() - self._since[name] > _PATIENCE_S]
        found = [name for name in due if _runs(store, name, now)]
        if found:
            cause = f"Airflow shows the watch no DAG of {names(found)}, which ran in the last {_RECENT.days} days"
            remedy = (
                f"What to do: give the user of {variable('airflow_api')} a role that may read all DAGs and their runs, "
                "such as Viewer; if people do not see it either, read the log of the DAG processor"
            )
            title = "Ratchet: the watch does not see each pipeline in Airflow"
            alert_once_a_day("unseen", title, f"{cause}\n{UNSEEN} of these\n{remedy}", now)
        return found


def _runs(store: Store, pipeline: str, now: datetime) -> bool:
    """Whether a run of it was planned in the last days."""
    since = (now - _RECENT).timestamp() * 1e9
    return any(mark.modified_ns >= since for mark in store.list(paths.nights(pipeline)))
