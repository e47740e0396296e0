"""Orphans, and their end: containers that no process follows or will follow; and leases of containers that are gone.

A container is followed while the beat of its lease goes on. It will be followed while its run goes on: after a worker
has died, the next try finds the container again. Any other container is an orphan. Only containers with our labels and
of our store are looked at.

A change here violates the promise of the project when a container is ended that a run would still come back for, or one
that is not Ratchet's.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ratchet.contracts import paths
from ratchet.contracts.errors import JobGone
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runs.jobs import store_label
from ratchet.store import lease
from ratchet.store.base import Store
from ratchet.store.lease import Silence, holder_of, read

_LOOK_S = 1.0
"""Seconds between two looks at the beat of a lease."""
_GRACE_S = 30
"""Of a container of a release that did not label it."""
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
    """The orphans of this store. It takes STALE_S seconds in which the store answers to see that a beat has ended."""
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
            grace_s=float(labels.get(Label.GRACE, _GRACE_S)),
        )
        if not is_alive(found.pipeline, found.run_id, found.stage):
            key = paths.lease(found.pipeline, found.stage, labels[Label.FINGERPRINT])
            candidates.append((found, key, labels[Label.ATTEMPT]))
    return [found for found, key, attempt in candidates if not _is_held(store, key, attempt)]


def reap(runner: DockerRunner, orphan: Orphan) -> None:
    """End a container: send it a notice to stop, kill it after its grace, and remove it."""
    runner.stop(orphan.handle, orphan.grace_s)
    runner.remove(orphan.handle)


def free_leases(store: Store, runner: DockerRunner) -> list[str]:
    """Delete leases that name this engine where it has no such container and nobody follows one; their stages.

    Another host waits for that: it cannot see that a container here has ended.
    """
    freed = []
    for entry in list(store.list(paths.leases())):
        found = read(store, entry.key)
        if found is None or found.lease.place is None or found.lease.place.engine != runner.engine.id:
            continue
        _, pipeline, stage, name = entry.key.split("/")
        if _runs(store, runner, pipeline, name.removesuffix(".json")):
            continue
        if found.lease.holder and _is_held(store, entry.key, found.lease.attempt):
            continue
        if store.delete(entry.key, expected=found.etag):  # as it was before the engine was asked
            freed.append(f"{stage} of {pipeline}")
    return freed


def _runs(store: Store, runner: DockerRunner, pipeline: str, fingerprint: str) -> bool:
    """Whether a container for some work runs here, or may still start."""
    for handle in runner.find(
        {Label.STORE: store_label(store.uri), Label.PIPELINE: pipeline, Label.FINGERPRINT: fingerprint}
    ):
        with suppress(JobGone):
            if runner.status(handle).running:
                return True
    return False


def _is_held(store: Store, key: str, attempt: str) -> bool:
    """Whether a lease names a container's attempt and its holder lives. Waits for a beat, or STALE_S without one."""
    silence, first = Silence(), None
    while True:
        asked = time.monotonic()
        found = holder_of(store, key)
        if found is None or found.attempt not in {attempt, lease.OF_ANOTHER_RELEASE}:
            return False
        first = first or found
        if (found.holder, found.beat) != (first.holder, first.beat):
            return True
        if silence.is_stale(found, asked):
            return False
        time.sleep(min(_LOOK_S, lease.STALE_S))
