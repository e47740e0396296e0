"""The lease of a fingerprint: a file in the store with a heartbeat, so that two attempts never compute the same work.

A waiter needs only its own clock: if the beat does not change for STALE_S seconds, the holder is dead, and the waiter
may take the lease over. Where the waiter can see that the holder's process has ended, it takes the lease at once. So
does a later try of the same run, because the orchestrator started it after the earlier one ended.

A change here violates the promise of the project when two callers can both believe for longer than a beat that they
hold one lease.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, Unavailable
from ratchet.store.base import Store
from ratchet.store.process import Process
from ratchet.store.sealed import seal, unseal

BEAT_S = 5.0
STALE_S = 30.0


class Lease(Document):
    """The right to compute one fingerprint."""

    run_id: str = Field(description="The run that computes.")
    installation: str = Field("", description="The installation of that run: another one may have a run of its id.")
    attempt: str = Field(description="The attempt whose job computes; its container has it as a label.")
    holder: str = Field(description="The attempt that follows the job.")
    started: datetime
    process: Process | None = Field(None, description="The holder's process; None where the system does not name it.")
    beat: int = Field(0, description="Grows while the holder is alive.")
    ending: bool = Field(
        default=False, description="Whether the job received a notice to stop; then no attempt continues it."
    )


class Hold:
    """A lease that this process holds. A thread keeps it alive until `release`.

    lost: set when another attempt takes it over; then the job belongs to that attempt.
    """

    def __init__(self, store: Store, key: str, lease: Lease) -> None:
        self.lost = threading.Event()
        self._lease = lease
        self._store, self._key = store, key
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, name="lease", daemon=True)
        self._thread.start()

    def point_at(self, attempt: str, started: datetime, *, ending: bool = False) -> None:
        """Set the attempt whose job computes: an earlier one, or the holder. Does nothing if the lease names it."""
        if self._lease.attempt != attempt:
            changed = {"attempt": attempt, "started": started, "ending": ending}
            self._lease = self._lease.model_copy(update=changed)
            self._beat(changed)

    def is_ours(self) -> bool:
        """Whether no other attempt has taken the lease over in the store. True if the store does not answer."""
        with suppress(Unavailable):
            found = _read(self._store, self._key)
            if found is not None and found[0].holder != self._lease.holder:
                self.lost.set()
        return not self.lost.is_set()

    def release(self) -> bool:
        """Release the lease. Returns whether it was still ours."""
        self._over.set()
        self._thread.join()
        while True:
            found = _read(self._store, self._key)
            if found is None or found[0].holder != self._lease.holder:
                self.lost.set()
                return False
            if self._store.delete(self._key, expected=found[1]):
                return True

    def _keep_alive(self) -> None:
        while not self._over.wait(BEAT_S) and not self.lost.is_set():
            try:
                self._beat()
            except Unavailable:
                continue  # it is still ours; if the store does not answer for long, others see no beat

    def _beat(self, changed: Mapping[str, object] = MappingProxyType({})) -> None:
        while True:  # until it is stored: the beat of our thread must not undo a change of the attempt
            found = _read(self._store, self._key)
            if found is None or found[0].holder != self._lease.holder:
                self.lost.set()
                return
            ours = found[0].model_copy(update={**changed, "beat": found[0].beat + 1})
            if self._store.replace(self._key, seal(ours), expected=found[1]):
                return


class Waiter:
    """One caller that waits for a lease."""

    def __init__(self, store: Store, key: str, lease: Lease, *, succeeds: bool = True) -> None:
        """lease: the lease to take; no other caller uses the name of its holder.

        succeeds: whether a holder of the same run is an earlier try. False for an attempt that has lost the lease to a
        later one: the two would take it from each other without end.
        """
        self._store, self._key, self._new, self._succeeds = store, key, lease, succeeds
        self._seen: Lease | None = None
        self._since = 0.0
        self.predecessor: Lease | None = None
        """The old lease, after a takeover: its job may still run."""

    def take(self) -> Hold | None:
        """Take the lease if it is free, stale, of a dead process, or of an earlier try. None: call again later."""
        while True:
            found = _read(self._store, self._key)
            if found is None:
                taken = self._store.create(self._key, seal(self._new))
                return Hold(self._store, self._key, self._new) if taken else None
            current, etag = found
            ours = (current.run_id, current.installation) == (self._new.run_id, self._new.installation)
            earlier = self._succeeds and ours
            dead = current.process is not None and current.process.is_dead()
            if not (earlier or dead or self._is_stale(current)):
                return None
            taken_over = self._new.model_copy(update={"beat": current.beat + 1})
            if self._store.replace(self._key, seal(taken_over), expected=etag):
                self.predecessor = current
                return Hold(self._store, self._key, taken_over)
            # It changed since it was read. A beat does not change our right to the lease: read again.

    @property
    def holder(self) -> Lease | None:
        """The lease of another attempt, at the last `take`."""
        return self._seen

    def _is_stale(self, current: Lease) -> bool:
        now = time.monotonic()
        if self._seen is None or (current.holder, current.beat) != (self._seen.holder, self._seen.beat):
            self._seen, self._since = current, now
        return now - self._since > STALE_S


def new_lease(run_id: str, attempt: str, *, installation: str = "") -> Lease:
    """A lease that starts now, with the attempt as its holder, in this process."""
    return Lease(
        run_id=run_id,
        installation=installation,
        attempt=attempt,
        holder=attempt,
        started=datetime.now(UTC),
        process=Process.current(),
    )


def mark_ending(store: Store, key: str, holder: str) -> bool:
    """Record that a holder's job is ending. False if another attempt has taken the lease over: the job continues."""
    while (found := _read(store, key)) is not None:
        current, etag = found
        if current.holder != holder:
            return False
        if store.replace(key, seal(current.model_copy(update={"ending": True})), expected=etag):
            return True
    return True


def holder_of(store: Store, key: str) -> Lease | None:
    """The lease in the store, if there is one."""
    found = _read(store, key)
    return found[0] if found else None


def _read(store: Store, key: str) -> tuple[Lease, str] | None:
    """The lease and its etag. A damaged lease has no beat, so it becomes stale."""
    entry = store.head(key)
    if entry is None:
        return None
    try:
        data = store.read(key)
    except FileNotFoundError:
        return None
    try:
        return unseal(
            data, Lease, where=f"{store.uri}/{key}", remedy="wait until it is stale and another attempt takes it over"
        ), entry.etag
    except CorruptArtifact:
        unknown = Lease(run_id="?", attempt="?", holder="?", started=datetime.fromtimestamp(0, UTC))
        return unknown, entry.etag
