"""The lease of a fingerprint: a file in the store, kept alive by a beat, so that two attempts never compute the same.

A waiter needs no clock but its own: if it sees no change of the beat for STALE_S seconds, the holder is dead, and the
waiter may take the lease over. Within one run the orchestrator knows better: a later try of the same run takes over at
once.

A change here violates the promise of the project when two callers can both believe for longer than a beat that they
hold one lease.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, Unavailable
from ratchet.store.base import Store
from ratchet.store.sealed import seal, unseal

BEAT_S = 5.0
STALE_S = 30.0


class Lease(Document):
    """run_id: the run that computes. attempt: the attempt whose job computes; its container has it as a label.

    holder: the attempt that follows the job. beat: grows while the holder lives. ending: whether the job has received a
    notice to stop; then no attempt goes on with it.
    """

    run_id: str
    attempt: str
    holder: str
    started: datetime
    beat: int = 0
    ending: bool = False


class Hold:
    """A lease of ours, kept alive by a thread until it is released.

    lost: set when another attempt has taken it over; then the job belongs to that attempt.
    """

    def __init__(self, store: Store, key: str, lease: Lease) -> None:
        self.lost = threading.Event()
        self._lease = lease
        self._store, self._key = store, key
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name="lease", daemon=True)
        self._thread.start()

    def point_at(self, attempt: str, started: datetime, *, ending: bool = False) -> None:
        """Name the attempt whose job computes: an earlier one, or the holder. Does nothing if the lease names it."""
        if self._lease.attempt != attempt:
            changed = {"attempt": attempt, "started": started, "ending": ending}
            self._lease = self._lease.model_copy(update=changed)
            self._beat(changed)

    def is_ours(self) -> bool:
        """Whether no other attempt has taken it over, by the store. True if the store does not answer."""
        with suppress(Unavailable):
            found = _read(self._store, self._key)
            if found is not None and found[0].holder != self._lease.holder:
                self.lost.set()
        return not self.lost.is_set()

    def release(self) -> bool:
        """Give the lease back. Returns whether it was still ours."""
        self._over.set()
        self._thread.join()
        while True:
            found = _read(self._store, self._key)
            if found is None or found[0].holder != self._lease.holder:
                self.lost.set()
                return False
            if self._store.delete(self._key, expected=found[1]):
                return True

    def _live(self) -> None:
        while not self._over.wait(BEAT_S) and not self.lost.is_set():
            try:
                self._beat()
            except Unavailable:
                continue  # it is still ours; if the store stays away, others see no beat

    def _beat(self, changed: Mapping[str, object] = MappingProxyType({})) -> None:
        while True:  # until it is stored: our own thread's beat must not undo a change of the attempt
            found = _read(self._store, self._key)
            if found is None or found[0].holder != self._lease.holder:
                self.lost.set()
                return
            ours = found[0].model_copy(update={**changed, "beat": found[0].beat + 1})
            if self._store.replace(self._key, seal(ours), expected=found[1]):
                return


class Waiter:
    """One caller that waits for a lease."""

    def __init__(self, store: Store, key: str, lease: Lease) -> None:
        """lease: the lease to take; no other caller uses the name of its holder."""
        self._store, self._key, self._new = store, key, lease
        self._seen: Lease | None = None
        self._since = 0.0
        self.predecessor: Lease | None = None
        """The lease that was taken over: its job may still run."""

    def take(self) -> Hold | None:
        """The lease, if it is free, stale, or of an earlier try of our own run. None: another holds it; call again."""
        while True:
            found = _read(self._store, self._key)
            if found is None:
                taken = self._store.create(self._key, seal(self._new))
                return Hold(self._store, self._key, self._new) if taken else None
            current, etag = found
            if not (current.run_id == self._new.run_id or self._is_stale(current)):
                return None
            ours = self._new.model_copy(update={"beat": current.beat + 1})
            if self._store.replace(self._key, seal(ours), expected=etag):
                self.predecessor = current
                return Hold(self._store, self._key, ours)
            # It changed since it was read. A beat in between changes nothing about our right to it: read again.

    @property
    def holder(self) -> Lease | None:
        """The lease at the last `take` that failed."""
        return self._seen

    def _is_stale(self, current: Lease) -> bool:
        now = time.monotonic()
        if self._seen is None or (current.holder, current.beat) != (self._seen.holder, self._seen.beat):
            self._seen, self._since = current, now
        return now - self._since > STALE_S


def new_lease(run_id: str, attempt: str) -> Lease:
    """A lease that starts now, held by the attempt itself."""
    return Lease(run_id=run_id, attempt=attempt, holder=attempt, started=datetime.now(UTC))


def conclude(store: Store, key: str, holder: str) -> bool:
    """Mark a holder's job as ending. False if another attempt has taken the lease over: then the job goes on."""
    while (found := _read(store, key)) is not None:
        current, etag = found
        if current.holder != holder:
            return False
        if store.replace(key, seal(current.model_copy(update={"ending": True})), expected=etag):
            return True
    return True


def holder_of(store: Store, key: str) -> Lease | None:
    """The lease as it is stored, if there is one."""
    found = _read(store, key)
    return found[0] if found else None


def _read(store: Store, key: str) -> tuple[Lease, str] | None:
    """The lease and its etag. A damaged one counts as a lease without a beat: it becomes stale."""
    entry = store.head(key)
    if entry is None:
        return None
    try:
        data = store.read(key)
    except FileNotFoundError:
        return None
    try:
        return unseal(
            data, Lease, where=f"{store.uri}/{key}", remedy="wait until it is stale and taken over"
        ), entry.etag
    except CorruptArtifact:
        unknown = Lease(run_id="?", attempt="?", holder="?", started=datetime.fromtimestamp(0, UTC))
        return unknown, entry.etag
