"""Which GPUs other hosts have: a training that this host is too small for waits for a worker beside more of them.

The reaper beside each engine marks in the store how many devices its host has. A mark counts for a week, so that a host
which is down for a night is waited for.

A change here violates the promise of the project when a training ends for good on a small host while a larger one takes
tasks from the same queue.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from ratchet.contracts import outbox_paths
from ratchet.contracts.errors import Unavailable
from ratchet.runners.devices import TooFewDevices, host_devices, why_silent
from ratchet.runners.runner import Engine
from ratchet.store.base import Store
from ratchet_airflow.run_id import installation

_COUNTS_NS = 7 * 24 * 3600 * 1_000_000_000


def mark_host(store: Store, engine: Engine) -> None:
    """Mark how many devices this host has. A mark stays as it was while the driver does not say."""
    if why_silent():
        return
    key = outbox_paths.host(installation(), engine.id)
    before = store.head(key)
    content = json.dumps({"host": engine.host, "gpus": len(host_devices().names)}).encode()
    store.replace(key, content, expected=before.etag if before else None)


@contextmanager
def larger_hosts_wanted(store: Store) -> Iterator[None]:
    """Turn TooFewDevices into Unavailable where another host has enough of them."""
    try:
        yield
    except TooFewDevices as error:
        if (host := _host_with(store, error.wanted)) is None:
            raise
        raise Unavailable(
            f"{error.cause}; {host} has enough",
            remedy=f"wait for a worker of {host}, or let the workers of small hosts take no tasks of this queue",
        ) from error


def _host_with(store: Store, gpus: int) -> str | None:
    """The name of a host with so many devices; None if there is none."""
    now = store.now_ns()
    for entry in list(store.list(outbox_paths.hosts(installation()))):
        if now - entry.modified_ns <= _COUNTS_NS:
            found = json.loads(store.read(entry.key))
            if found["gpus"] >= gpus:
                return str(found["host"])
    return None
