"""Orphans, and their end: containers that no process follows or will follow; and leases of containers that have ended.

A container is followed while the beat of its lease goes on. It will be followed while its run goes on: after a worker
has died, the next try finds the container again. Any other container is an orphan. Only containers with our labels and
of our store are looked at.

A change here violates the promise of the project when a container is ended that a run would still come back for, or one
that is not Ratchet's.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from ratchet.contracts import paths
from ratchet.contracts.errors import JobGone
from ratchet.contracts.labels import Label
from ratchet.runners.docker import DockerRunner
from ratchet.runs.ends import unfollowed_end
from ratchet.runs.jobs import store_label
from ratchet.store import lease
from ratchet.store.base import Store
from ratchet.store.ending import leave_end
from ratchet.store.lease import Lease, Silence, holder_of, read
from ratchet.store.place import End

_LOOK_S = 1.0
"""Seconds between two looks at the beat of a lease."""
_AT_ONCE = 64
"""Containers that are ended together: each may take its grace."""
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
    held = _held(store, {(key, attempt) for _, key, attempt in candidates})
    return [found for found, key, attempt in candidates if (key, attempt) not in held]


def reap_all(runner: DockerRunner, found: Sequence[Orphan]) -> None:
    """End containers, each as `reap` does. Raises the first error once all others have ended."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda orphan: reap(runner, orphan), found))


def reap(runner: DockerRunner, orphan: Orphan) -> None:
    """End a container: send it a notice to stop, kill it after its grace, and remove it."""
    runner.stop(orphan.handle, orphan.grace_s)
    runner.remove(orphan.handle)


def free_leases(store: Store, runner: DockerRunner) -> list[str]:
    """Free leases that name this engine where no such container runs and nobody follows one; their stages.

    Another host waits for that: it cannot see that a container here has ended. How one ended that has no result is left
    in its lease; other leases are deleted.
    """
    gone = []
    for entry in list(store.list(paths.leases())):
        found = read(store, entry.key)
        if found is None or found.lease.place is None or found.lease.place.engine != runner.engine.id:
            continue
        _, pipeline, _, name = entry.key.split("/")
        if not _runs(store, runner, pipeline, name.removesuffix(".json")):
            gone.append((entry.key, found))
    held = _held(store, {(key, found.lease.attempt) for key, found in gone if found.lease.holder})
    freed = []
    for key, found in gone:
        if (key, found.lease.attempt) in held:
            continue
        end = _end(store, runner, key, found.lease)
        # As it was before the engine was asked.
        if leave_end(store, key, found, end) if end is not None else store.delete(key, expected=found.etag):
            _, pipeline, stage, _ = key.split("/")
            freed.append(f"{stage} of {pipeline}")
    return freed


def _end(store: Store, runner: DockerRunner, key: str, of: Lease) -> End | None:
    """How the container that a lease names has ended, if it is there and an attempt may go on with it."""
    _, pipeline, stage, name = key.split("/")
    fingerprint = name.removesuffix(".json")
    published = paths.manifest(paths.published(pipeline, stage, fingerprint))
    if of.ending or store.head(published) is not None:
        return None
    for handle in runner.find({**_labels(store, pipeline, fingerprint), Label.ATTEMPT: of.attempt}):
        with suppress(JobGone):
            return unfollowed_end(runner, handle, runner.engine.host)
    return None


def _labels(store: Store, pipeline: str, fingerprint: str) -> dict[str, str]:
    return {Label.STORE: store_label(store.uri), Label.PIPELINE: pipeline, Label.FINGERPRINT: fingerprint}


def _runs(store: Store, runner: DockerRunner, pipeline: str, fingerprint: str) -> bool:
    """Whether a container for some work runs here, or may still start."""
    for handle in runner.find(_labels(store, pipeline, fingerprint)):
        with suppress(JobGone):
            if runner.status(handle).running:
                return True
    return False


def _held(store: Store, leases: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which leases, each with an attempt, name that attempt and have a holder that lives.

    Waits for a beat of each, or STALE_S without one: for all at the same time, since a host that died leaves many.
    """
    held: set[tuple[str, str]] = set()
    looks = {one: _Look() for one in leases}
    while looks:
        for one, look in list(looks.items()):
            lives = look.again(store, *one)
            if lives is not None:
                del looks[one]
            if lives:
                held.add(one)
        if looks:
            time.sleep(min(_LOOK_S, lease.STALE_S))
    return held


class _Look:
    """At whether a lease names an attempt and its holder lives."""

    def __init__(self) -> None:
        self._silence = Silence()
        self._first: Lease | None = None

    def again(self, store: Store, key: str, attempt: str) -> bool | None:
        """Look once more. None while it cannot be said."""
        asked = time.monotonic()
        found = holder_of(store, key)
        if found is None or found.attempt not in {attempt, lease.OF_ANOTHER_RELEASE}:
            return False
        self._first = self._first or found
        if (found.holder, found.beat) != (self._first.holder, self._first.beat):
            return True
        return False if self._silence.is_stale(found, asked) else None
