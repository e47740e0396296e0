"""No job of a pipeline runs: what has to be so while rows are taken out of its data.

A change here violates the promise of the project when two removals of a pipeline run at once, or one goes on while a
job reads what it deletes.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from secrets import token_hex

from ratchet.contracts import paths
from ratchet.contracts.errors import Unavailable
from ratchet.store.base import Store
from ratchet.store.lease import STALE_S, Hold, Lease, Silence, Waiter, holder_of, new_lease

_REMOVAL = "removal"
_POLL_S = 0.5
_LONGEST_S = 4 * STALE_S
"""For a silent process to count as dead: where the store answers slowly, that takes longer."""
Pause = Callable[[float], None]


class RowsHeld(Unavailable):
    """Another process removes rows of the pipeline, or keeps them in place. It may do so for hours, and all is well."""


@contextmanager
def only_removal(
    store: Store, pipeline: str, by: str, *, wait_s: float, outlives: bool = False, pause: Pause = time.sleep
) -> Iterator[Hold]:
    """Hold the right to remove rows of a pipeline. Raises RowsHeld if another process has it for `wait_s`.

    outlives: while that process is silent, wait also longer, until it counts as dead: on another host nobody sees it.
    """
    name = f"removal-{token_hex(4)}"
    waiter = Waiter(store, paths.lease(pipeline, _REMOVAL, "rows"), new_lease(f"{name} by {by}", name), succeeds=False)
    began, first = time.monotonic(), None
    while (hold := waiter.take()) is None:
        other, waited_s = waiter.holder, time.monotonic() - began
        last = (other.holder, other.beat) if other else None
        first = first or last
        silent = outlives and last == first and waited_s < _LONGEST_S
        if waited_s > wait_s and not silent:
            who = other.run_id if other else "another process"
            raise RowsHeld(f"{who} holds the rows of {pipeline}", remedy="wait for it, and run the command again")
        pause(_POLL_S)
    try:
        yield hold
    finally:
        hold.release()


def wait_for_jobs(store: Store, pipeline: str, *, wait_s: float, pause: Pause = time.sleep) -> None:
    """Return once no job of a pipeline runs. Raises Unavailable with the names of those that run after `wait_s`.

    A lease whose process is dead counts as no job, and so does one whose beat has stopped for STALE_S.
    """
    end = time.monotonic() + wait_s
    seen: dict[str, Silence] = {}
    while running := _running(store, pipeline, seen):
        if time.monotonic() > end:
            names = ", ".join(sorted({f"{stage} of run {lease.run_id}" for stage, lease in running}))
            raise Unavailable(
                f"{pipeline}: {names} may read these rows now",
                remedy=f"wait for it or stop it, and run the command again; --wait {2 * STALE_S:.0f}s also "
                "finds one that has died on another host",
            )
        pause(_POLL_S)


def _running(store: Store, pipeline: str, seen: dict[str, Silence]) -> list[tuple[str, Lease]]:
    found = []
    for entry in list(store.list(paths.leases(pipeline))):
        stage = entry.key.split("/")[2]
        asked = time.monotonic()
        lease = holder_of(store, entry.key) if stage != _REMOVAL else None
        if lease is None or (lease.process is not None and lease.process.is_dead()):
            continue
        if not seen.setdefault(entry.key, Silence()).is_stale(lease, asked):
            found.append((stage, lease))
    return found
