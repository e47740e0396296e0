"""Orphans, and their end: containers that no process follows or will follow.

A container is followed while the beat of its lease goes on. It will be followed while its run goes on: after a worker
has died, the next try finds the container again. Any other container is an orphan. Only containers with our labels and
of our store are looked at.

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
    """A container without a follower. grace_s: seconds of its stage between the notice to stop and the kill."""

    handle: str
    pipeline: str
    stage: str
    run_id: str
    grace_s: float


def orphans(store: Store, runner: DockerRunner, is_alive: IsAlive) -> list[Orphan]:
    """The orphans of this store. It takes STALE_S seconds to see whether the beat of a lease has ended."""
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
    """End a container: send it a notice to stop, kill it after its grace, and remove it."""
    runner.stop(orphan.handle, orphan.grace_s)
    runner.remove(orphan.handle)


def _held(store: Store, key: str, attempt: str) -> Lease | None:
    """The lease that names a container's attempt, if there is one."""
    found = holder_of(store, key)
    return found if found is not None and found.attempt == attempt else None
