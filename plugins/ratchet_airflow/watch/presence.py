"""Whether there are a watch and a reaper: each marks in the store that it is there, and looks for the other one.

A change here violates the promise of the project when an Airflow whose watch nobody started is silent about that.
"""

import json
from datetime import timedelta
from typing import Literal

from ratchet.contracts import outbox_paths
from ratchet.contracts.environment import environment
from ratchet.contracts.quantities import show_duration
from ratchet.outbox.outbox import utc
from ratchet.store.base import Entry, Store
from ratchet_airflow.run_id import installation

_LIMIT_S = 1800.0
"""More than a server is away that is restarted, or whose host is."""
_UNENDED = "Meanwhile containers that no run follows go on, and other hosts wait for those that are gone"
Server = Literal["watch", "reaper"]


def mark(store: Store, server: Server) -> None:
    """Mark that a server is there."""
    _write(store, outbox_paths.presence(installation(), server))


def away_for(store: Store, server: Server) -> timedelta | None:
    """How long no such server has been there, if that is too long.

    It counts from the first look that finds none: where all was stopped, one may start before the other.
    """
    there = store.head(outbox_paths.presence(installation(), server))
    missed = store.head(outbox_paths.absence(installation(), server))
    now, limit = store.now_ns(), timedelta(seconds=max(_LIMIT_S, 2 * environment().watch_seconds))
    if there is not None and _ago(there, now) <= limit:
        return None
    if missed is None or (there is not None and missed.modified_ns <= there.modified_ns):
        _write(store, outbox_paths.absence(installation(), server))
        return None
    away = _ago(missed, now)
    return away if away > limit else None


def _ago(entry: Entry, now_ns: int) -> timedelta:
    return timedelta(microseconds=(now_ns - entry.modified_ns) // 1000)


def _write(store: Store, key: str) -> None:
    before = store.head(key)
    content = json.dumps({"at": utc().isoformat()}).encode()
    store.replace(key, content, expected=before.etag if before else None)


def report(store: Store, server: Server) -> bool:
    """Alert people if no such server is there. Whether that is so."""
    away = away_for(store, server)
    if away is not None:
        from ratchet_airflow.watch.waiting import UNSEEN, alert_once_a_day  # which loads Airflow

        means = UNSEEN if server == "watch" else _UNENDED
        body = f"For {show_duration(int(away.total_seconds()))} no {server} has been there\n{means}\n"
        place = "" if server == "watch" else " beside each engine"
        start = f"start the service `{server}`, or python -m ratchet_airflow.{server}{place}"
        remedy = f"What to do: {start}, and read its log"
        alert_once_a_day(f"no-{server}", f"Ratchet: no {server} is running", f"{body}{remedy}", utc())
    return away is not None
