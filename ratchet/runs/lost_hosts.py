"""Hosts that are gone for good: a person says so, and what may have run on them may begin elsewhere.

A change here violates the promise of the project when a lease is freed whose container has just shown that it lives, or
without a record of who did it and why.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from secrets import token_hex

from pydantic import Field

from ratchet.contracts import paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.quantities import show_duration
from ratchet.runs.known_hosts import hosts, mark_gone
from ratchet.store.base import Store
from ratchet.store.lease import Found, read
from ratchet.store.place import QUIET_S, Place, quiet_s
from ratchet.store.sealed import seal


class LostHost(Document):
    """That a container counts as gone with its host. It is kept with the run that followed the container."""

    host: str
    engine: str
    attempt: str = Field(description="The attempt whose container it was.")
    by: str
    because: str
    at: datetime


def say_gone(store: Store, host: str, *, by: str, because: str) -> list[str]:
    """Free the leases of the containers on a host, by its name or its engine's id; what they computed, in words.

    Its reaper is missed no longer. Raises ConfigurationError if neither a lease nor a reaper names the host, and
    Unavailable, before it frees any, where one has been heard in the last QUIET_S: then the host is not gone.
    """
    leases, known = [(key, found, place) for key, found, place in _placed(store)], hosts(store)
    ours = [(key, found, place) for key, found, place in leases if host in {place.host, place.engine}]
    marks = [one for one in known if host in {one.name, one.engine}]
    if not ours and not marks:
        places = {(place.host, place.engine) for _, _, place in leases} | {(one.name, one.engine) for one in known}
        named = ", ".join(f"{name} ({engine})" for name, engine in sorted(places)) or "none"
        raise ConfigurationError(
            f"no container counts as one of {host}; hosts that are known: {named}", remedy="name one of these, if any"
        )
    for one in marks:
        if (silent_s := (store.now_ns() - one.entry.modified_ns) / 1e9) < QUIET_S:
            raise Unavailable(
                f"{host} is not gone: its reaper was heard {show_duration(max(0, round(silent_s)))} ago",
                remedy=f"wait for the host, or stop it; if it died just now, ask again in {QUIET_S:.0f} s",
            )
    for key, found, place in ours:
        silent_s = quiet_s(store, found.entry, place) if found.entry is not None else 0.0
        if silent_s < QUIET_S:
            raise Unavailable(
                f"{host} is not gone: {_said(key, found)} was heard {show_duration(max(0, round(silent_s)))} ago",
                remedy=f"wait for it, or end it there; if the host died just now, ask again in {QUIET_S:.0f} s",
            )
    for one in marks:
        mark_gone(store, one, by=by, because=because)
    return [_said(key, found) for key, found, place in ours if _free(store, key, found, place, by, because)]


def _placed(store: Store) -> Iterator[tuple[str, Found, Place]]:
    for entry in list(store.list(paths.leases())):
        found = read(store, entry.key)
        if found is not None and found.lease.place is not None:
            yield entry.key, found, found.lease.place


def _free(store: Store, key: str, found: Found, place: Place, by: str, because: str) -> bool:
    _, pipeline, stage, _ = key.split("/")
    lease = found.lease
    said = LostHost(
        host=place.host, engine=place.engine, attempt=lease.attempt, by=by, because=because, at=datetime.now(UTC)
    )
    store.create(paths.kept(pipeline, lease.run_id, stage, f"host-gone-{token_hex(4)}.json"), seal(said))
    return store.delete(key, expected=found.etag)


def _said(key: str, found: Found) -> str:
    _, pipeline, stage, _ = key.split("/")
    return f"{stage} of {pipeline}, run {found.lease.run_id}, attempt {found.lease.attempt}"
