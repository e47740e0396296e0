"""Containers that nobody follows any more, and their end.

A container is followed while its lease beats, and waited for while the run that it belongs to goes on: a worker that
died is succeeded by the next try, which finds the container again. What is neither is an orphan. Only containers with
our labels and of our store are ever looked at.

A change here violates the promise of the project when a container is ended that a run would still come back for, or one
that is not Ratchet's.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ratchet.contracts import paths
from ratchet.contracts.errors import JobGone
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runs.jobs import store_label
from ratchet.store import lease
from ratchet.store.base import Store
from ratchet.store.lease import Lease, holder_of

IsAlive = Callable[[str, str, str], bool]
"""Whether a stage of a run may still be followed: (pipeline, run id in the store, stage)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A container that nobody follows. grace_s: what its stage gets between the notice and the kill."""

    handle: str
    pipeline: str
    stage: str
    run_id: str
    grace_s: float


def orphans(store: Store, runner: DockerRunner, is_alive: IsAlive) -> list[Orphan]:
    """Containers of this store that nobody follows. Where leases are in doubt, it takes STALE_S seconds to be sure."""
    candidates = []
    for handle in runner.find({Label.STORE: store_label(store.uri)}):
        try:
            labels = runner.labels(handle)
        except JobGone:
            continue
        found = Orphan(
            handle=handle,
            pipeline=labels[Label.PIPELINE],
            stage=labels[Label.STAGE],
            run_id=labels[Label.RUN],
            grace_s=float(labels[Label.GRACE]),
        )
        if not is_alive(found.pipeline, found.run_id, found.stage):
            key = paths.lease(found.pipeline, found.stage, labels[Label.FINGERPRINT])
            candidates.append((found, key, _held(store, key, labels[Label.ATTEMPT])))
    if any(held for _, _, held in candidates):
        time.sleep(lease.STALE_S)
    return [found for found, key, held in candidates if held is None or holder_of(store, key) == held]


def reap(runner: DockerRunner, orphan: Orphan) -> None:
    """End a container: told first, killed after its grace, removed."""
    runner.stop(orphan.handle, orphan.grace_s)
    runner.remove(orphan.handle)


def _held(store: Store, key: str, attempt: str) -> Lease | None:
    """The lease of a container's computation, if there is one."""
    found = holder_of(store, key)
    return found if found is not None and found.attempt == attempt else None
