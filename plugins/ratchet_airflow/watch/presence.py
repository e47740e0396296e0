"""Whether there is a watch: each of its scans marks that in the store, and the reaper, which runs beside it, looks.

A change here violates the promise of the project when an Airflow whose watch nobody started is silent about that.
"""

import json
from datetime import timedelta

from ratchet.contracts import outbox_paths
from ratchet.contracts.environment import environment
from ratchet.contracts.quantities import show_duration
from ratchet.outbox.outbox import utc
from ratchet.store.base import Entry, Store
from ratchet_airflow.run_id import installation

_LIMIT_S = 1800.0
"""More than a watch is away that is restarted, or whose host is."""


def mark(store: Store) -> None:
    """Mark that a watch is there."""
    _write(store, outbox_paths.watch(installation()))


def away_for(store: Store) -> timedelta | None:
    """How long no watch has been there, if that is too long.

    It counts from the first look that finds none: where all was stopped, a reaper may start before the watch.
    """
    there, missed = store.head(outbox_paths.watch(installation())), store.head(outbox_paths.no_watch(installation()))
    now, limit = store.now_ns(), timedelta(seconds=max(_LIMIT_S, 2 * environment().watch_seconds))
    if there is not None and _ago(there, now) <= limit:
        return None
    if missed is None or (there is not None and missed.modified_ns <= there.modified_ns):
        _write(store, outbox_paths.no_watch(installation()))
        return None
    away = _ago(missed, now)
    return away if away > limit else None


def _ago(entry: Entry, now_ns: int) -> timedelta:
    return timedelta(microseconds=(now_ns - entry.modified_ns) // 1000)


def _write(store: Store, key: str) -> None:
    before = store.head(key)
    content = json.dumps({"at": utc().isoformat()}).encode()
    store.replace(key, content, expected=before.etag if before else None)


def report(store: Store) -> bool:
    """Alert people if no watch is there. Whether that is so."""
    away = away_for(store)
    if away is not None:
        from ratchet_airflow.watch.waiting import UNSEEN, alert_once_a_day  # which loads Airflow

        body = f"For {show_duration(int(away.total_seconds()))} no watch has been there\n{UNSEEN}\n"
        remedy = "What to do: start the service `watch`, or python -m ratchet_airflow.watch, and read its log"
        alert_once_a_day("no-watch", "Ratchet: no watch is running", f"{body}{remedy}", utc())
    return away is not None
