"""Who computes a fingerprint now: a lease in the store, kept alive by a beat, so that two attempts never compute it.

A waiter needs no clock but its own: a lease whose beat does not change for STALE_S seconds, as the waiter sees it, is
one whose holder is dead, and may be taken over. Within one run the orchestrator knows better: a later try of the same
run takes over at once.

A change here violates the promise of the project when two callers can both believe for longer than a
beat that they hold one lease.
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
    """run_id: the run that computes. attempt: the computation; its container bears it as a label.

    holder: who follows the computation, another name for each. beat: grows while the holder lives. ending: whether the
    computation was told to stop, so that nobody is to go on with it.
    """

    run_id: str
    attempt: str
    holder: str
    started: datetime
    beat: int = 0
    ending: bool = False


class Hold:
    """A lease of ours, kept alive by a thread until it is released.

    lost: set when another has taken it over; then what it protects is theirs.
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
        """Ask the store whether nobody has taken it over. A store that does not answer says nothing against it."""
        with suppress(Unavailable):
            found = _read(self._store, self._key)
            if found is not None and found[0].holder != self._lease.holder:
                self.lost.set()
        return not self.lost.is_set()

    def release(self) -> bool:
        """Give the lease back. Whether it was still ours."""
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
                continue  # a store that is away for a while takes nothing from us; others see our beat stand still

    def _beat(self, changed: Mapping[str, object] = MappingProxyType({})) -> None:
        while True:  # until it stands: what is said of a computation must not be lost to a beat of our own thread
            found = _read(self._store, self._key)
            if found is None or found[0].holder != self._lease.holder:
                self.lost.set()
                return
            ours = found[0].model_copy(update={**changed, "beat": found[0].beat + 1})
            if self._store.replace(self._key, seal(ours), expected=found[1]):
                return


class Waiter:
    """One caller's watch on a lease, for as long as it wants it."""

    def __init__(self, store: Store, key: str, lease: Lease) -> None:
        """lease: what is wanted; its holder has to be a name that nobody else uses."""
        self._store, self._key, self._wanted = store, key, lease
        self._seen: Lease | None = None
        self._since = 0.0
        self.predecessor: Lease | None = None
        """Whose lease was taken over: its computation may still be under way."""

    def take(self) -> Hold | None:
        """The lease, if it is free, stale, or of an earlier try of our own run. None: another holds it; ask again."""
        while True:
            found = _read(self._store, self._key)
            if found is None:
                taken = self._store.create(self._key, seal(self._wanted))
                return Hold(self._store, self._key, self._wanted) if taken else None
            standing, etag = found
            if not (standing.run_id == self._wanted.run_id or self._is_stale(standing)):
                return None
            ours = self._wanted.model_copy(update={"beat": standing.beat + 1})
            if self._store.replace(self._key, seal(ours), expected=etag):
                self.predecessor = standing
                return Hold(self._store, self._key, ours)
            # It changed since it was read. A beat in between takes nothing from our right to it: look again.

    @property
    def holder(self) -> Lease | None:
        """Who held it when it was last asked for in vain."""
        return self._seen

    def _is_stale(self, standing: Lease) -> bool:
        now = time.monotonic()
        if self._seen is None or (standing.holder, standing.beat) != (self._seen.holder, self._seen.beat):
            self._seen, self._since = standing, now
        return now - self._since > STALE_S


def new_lease(run_id: str, attempt: str) -> Lease:
    """A lease to ask for, beginning now, held by the attempt itself."""
    return Lease(run_id=run_id, attempt=attempt, holder=attempt, started=datetime.now(UTC))


def conclude(store: Store, key: str, holder: str) -> bool:
    """Say that a holder's computation comes to its end. False if another has taken the lease over: then it goes on."""
    while (found := _read(store, key)) is not None:
        standing, etag = found
        if standing.holder != holder:
            return False
        if store.replace(key, seal(standing.model_copy(update={"ending": True})), expected=etag):
            return True
    return True


def holder_of(store: Store, key: str) -> Lease | None:
    """The lease as it stands, if there is one."""
    found = _read(store, key)
    return found[0] if found else None


def _read(store: Store, key: str) -> tuple[Lease, str] | None:
    """The lease and its etag. A damaged one counts as held by nobody who beats: it becomes stale."""
    entry = store.head(key)
    if entry is None:
        return None
    try:
        data = store.read(key)
    except FileNotFoundError:
        return None
    try:
        return unseal(data, Lease, where=f"{store.uri}/{key}", remedy="it is taken over when it is stale"), entry.etag
    except CorruptArtifact:
        unknown = Lease(run_id="?", attempt="?", holder="?", started=datetime.fromtimestamp(0, UTC))
        return unknown, entry.etag
