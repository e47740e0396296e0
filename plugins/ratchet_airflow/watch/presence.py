"""Whether there are a watch and reapers: each marks in the store that it is there, and looks for the other ones.

A change here violates the promise of the project when an Airflow whose watch nobody started is silent about that, or
when a host that is down is missed by nobody.
"""

from datetime import UTC, datetime, timedelta
from typing import Literal

from ratchet.contracts import outbox_paths
from ratchet.contracts.environment import environment
from ratchet.contracts.presence import AWAY_S, Presence
from ratchet.contracts.quantities import show_duration
from ratchet.outbox.outbox import utc
from ratchet.runs.known_hosts import hosts
from ratchet.store.base import Entry, Store
from ratchet_airflow.run_id import installation

_UNENDED = "Meanwhile containers that no run follows go on, and other hosts wait for those that are gone"
_COLLECTION = "collection"
Server = Literal["watch", "reaper"]


def mark(store: Store, server: Server, *, heartbeat: datetime | None = None) -> None:
    """Mark that a server is there. heartbeat: of a watch that sends one outside, when the last one went out."""
    _write(store, outbox_paths.presence(installation(), server), heartbeat)


def away_for(store: Store, server: Server) -> timedelta | None:
    """How long no such server has been there, if that is too long."""
    there = store.head(outbox_paths.presence(installation(), server))
    return _away_for(store, there, outbox_paths.absence(installation(), server))


def mark_collection(store: Store) -> None:
    """Mark that a collection has looked at the store, whatever it found."""
    _write(store, outbox_paths.presence(installation(), _COLLECTION))


def not_collected_for(store: Store) -> timedelta:
    """For how long no collection has looked at the store; where none ever has, since the first such question."""
    asked = outbox_paths.absence(installation(), _COLLECTION)
    there = store.head(outbox_paths.presence(installation(), _COLLECTION)) or store.head(asked)
    if there is None:
        _write(store, asked)
        return timedelta(0)
    return _ago(there, store.now_ns())


def backup_copied(store: Store) -> tuple[datetime, timedelta] | None:
    """When a backup was copied off the host last, by the store's clock, and how long ago; None if no copy is wanted."""
    there = store.head(outbox_paths.presence(installation(), outbox_paths.BACKUP))
    return (_time(there), _ago(there, store.now_ns())) if there is not None else None


def hosts_away(store: Store) -> list[tuple[str, str, timedelta]]:
    """The hosts whose reaper has not been there for too long: their names, what names no other one, and how long.

    An engine that was installed again is another one, on a host of the same name.
    """
    return [(host, one, since) for host, one, since, _ in _hosts_away(store)]


def _hosts_away(store: Store) -> list[tuple[str, str, timedelta, str]]:
    """The same, each with where the first look that found none has left its mark."""
    known = hosts(store, installation())
    names = [host.name for host in known]
    found = ((host, outbox_paths.absence_of(host.entry.key)) for host in known)
    away = ((host, _away_for(store, host.entry, missed), missed) for host, missed in found)
    return [
        (host.name, host.name if names.count(host.name) == 1 else host.engine, since, missed)
        for host, since, missed in away
        if since is not None
    ]


def _away_for(store: Store, there: Entry | None, absence: str) -> timedelta | None:
    """It counts from the first look that finds none: where all was stopped, one may start before the other.

    absence: where that look leaves its mark.
    """
    missed = store.head(absence)
    now, limit = store.now_ns(), timedelta(seconds=max(AWAY_S, 2 * environment().watch_seconds))
    if there is not None and _ago(there, now) <= limit:
        return None
    if missed is None or (there is not None and missed.modified_ns <= there.modified_ns):
        _write(store, absence)
        return None
    away = _ago(missed, now)
    return away if away > limit else None


def _ago(entry: Entry, now_ns: int) -> timedelta:
    return timedelta(microseconds=(now_ns - entry.modified_ns) // 1000)


def _write(store: Store, key: str, heartbeat: datetime | None = None) -> None:
    before = store.head(key)
    content = Presence(at=utc(), heartbeat=heartbeat).model_dump_json(exclude_none=True).encode()
    store.replace(key, content, expected=before.etag if before else None)


def report(store: Store, server: Server) -> bool:
    """Alert people if no such server is there; or else where one of several reapers is not. Whether that is so."""
    away = away_for(store, server)
    if away is not None:
        means = _unseen() if server == "watch" else _UNENDED
        place = "" if server == "watch" else " beside each engine"
        remedy = f"start the service `{server}`, or python -m ratchet_airflow.{server}{place}, and read its log"
        said = f"For {show_duration(int(away.total_seconds()))} no {server} has been there\n{means}\n"
        missed = _begin(store, outbox_paths.absence(installation(), server))
        _alert(f"no-{server}", f"Ratchet: no {server} is running", said, remedy, missed)
        return True
    lost = _hosts_away(store) if server == "reaper" else []
    for host, one, since, mark_of in lost:
        said = f"For {show_duration(int(since.total_seconds()))} the reaper of {one} has not been there\n{_UNENDED}\n"
        remedy = (
            f"start {host}, or its service `reaper`, and read its log; if {one} is gone for good: "
            f"`ratchet host-gone {one} --because WHY`"
        )
        title = f"Ratchet: no reaper is running on {host}"
        _alert(f"no-reaper-{host}", title, said, remedy, _begin(store, mark_of))
    return bool(lost)


def _begin(store: Store, absence: str) -> datetime | None:
    """When a server was missed first, by the store's clock: if it comes back and goes again, that is another time."""
    missed = store.head(absence)
    return _time(missed) if missed is not None else None


def _time(entry: Entry) -> datetime:
    return datetime.fromtimestamp(entry.modified_ns // 10**9, UTC)


def _unseen() -> str:
    from ratchet_airflow.watch.waiting import UNSEEN  # which loads Airflow

    return UNSEEN


def _alert(what: str, title: str, said: str, remedy: str, since: datetime | None) -> None:
    from ratchet_airflow.watch.waiting import alert_once_a_day

    alert_once_a_day(what, title, f"{said}What to do: {remedy}", utc(), since=since)
