"""The lease of a fingerprint: a file in the store with a heartbeat, so that two attempts never compute the same work.

A waiter needs only its own monotonic clock: if the beat does not change for STALE_S seconds in which the store answered
the waiter, the holder is dead, and the waiter may take the lease over. Time in which the store was away does not count,
since the holder could not beat either; STALE_S is longer than one hung request of the holder, its next try and a beat.
Where the waiter can see that the holder's process has ended, it takes the lease at once. So does a later try of the
same run, because the orchestrator started it after the earlier one ended.

A job that outlives its holder has a place: the engine in which it lives. Only who reaches that engine takes such a
lease, and goes on with the job or ends it; see `place`. A lease without a holder is free to be taken so.

A change here violates the promise of the project when two callers can both believe for longer than a beat that they
hold one lease, or when one is taken whose job may live where the caller does not see it.
"""

import math
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, OtherRelease, RatchetError
from ratchet.store.base import Entry, Store
from ratchet.store.place import End, Place, is_lost
from ratchet.store.process import Process
from ratchet.store.sealed import seal, seal_again, unseal

BEAT_S = 5.0
STALE_S = 45.0
STALL_S = 5.0
"""Seconds after which an answer of the store is so late that the holder may have none."""
OF_ANOTHER_RELEASE = "of another release"
"""The attempt and the run of a lease that this release cannot read. Its holder lives while its etag changes."""
DAMAGED = "?"
"""The attempt, the run and the holder of a lease that nobody can read."""


class Lease(Document):
    """The right to compute one fingerprint."""

    run_id: str = Field(description="The run that computes.")
    installation: str = Field("", description="The installation of that run: another one may have a run of its id.")
    attempt: str = Field(description="The attempt whose job computes; its container has it as a label.")
    holder: str = Field(description="The attempt that follows the job; empty: none does, and the job may live.")
    place: Place | None = Field(None, description="Where the job lives; None for one that ends with its holder.")
    started: datetime
    process: Process | None = Field(None, description="The holder's process; None where the system does not name it.")
    beat: int = Field(0, description="Grows while the holder is alive.")
    seconds: float = Field(
        0, ge=0, description="How long the job has been followed, by the monotonic clocks of its followers' hosts."
    )
    ending: bool = Field(
        default=False, description="Whether the job received a notice to stop; then no attempt continues it."
    )
    end: End | None = Field(None, description="How the job ended, if it has no result and its own host has said so.")


class Hold:
    """A lease that this process holds. A thread keeps it alive until `release`.

    lost: set when another attempt takes it over; then the job belongs to that attempt. handed: see `hand_over`.
    """

    def __init__(self, store: Store, key: str, found: "Found") -> None:
        self.lost = threading.Event()
        self._found, self._changing = found, threading.Lock()
        """The lease as this process has written it last, or has read it since; and who changes it."""
        self._since = time.monotonic() - found.lease.seconds
        self._until, self._ended, self.handed = math.inf, math.inf, False
        self._store, self._key = store, key
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, name="lease", daemon=True)
        self._thread.start()

    def point_at(
        self,
        attempt: str,
        started: datetime,
        *,
        place: Place | None = None,
        seconds: float = 0.0,
        ending: bool = False,
        end: End | None = None,
    ) -> None:
        """Set the attempt whose job computes: an earlier one, or the holder. Does nothing if the lease says so.

        place: where the job lives, or will. seconds: how long that job has been followed so far. end: how it ended.
        """
        changed = {"attempt": attempt, "place": place, "ending": ending, "end": end}
        if any(getattr(self._found.lease, name) != value for name, value in changed.items()):
            self._since = time.monotonic() - seconds
            self._beat({**changed, "started": started})

    def is_ours(self) -> bool:
        """Whether no other attempt has taken the lease over in the store. True if the store does not answer."""
        with suppress(RatchetError):
            found = read(self._store, self._key)
            if found is not None and found.lease.holder != self._found.lease.holder:
                self.lost.set()
        return not self.lost.is_set()

    def hand_over(self, for_s: float = 0.0, *, ended: bool = False, end: End | None = None) -> bool:
        """Leave the lease in the store for a later attempt, which takes it over; `release` does nothing from now on.

        Returns whether it was still ours: what another attempt has cannot be left. for_s: how long it beats at most
        until then; with 0 this process may end, and others wait STALE_S. ended: the job has, so no later time counts.
        end: how it has, where it has no result; then nothing lives in its place any more.
        """
        left = {"end": end, "place": None} if end is not None else {}
        now = time.monotonic()
        self._until, self._ended = now + for_s, now if ended else math.inf
        if for_s <= 0:
            self._over.set()
            self._thread.join()
        with suppress(RatchetError):
            self._beat({**left, "process": None} if for_s <= 0 else left)
        self.handed = self.is_ours()
        return self.handed

    def release(self, *, lives: bool = False) -> bool:
        """Release the lease, unless it was handed over. Returns whether it was still ours.

        lives: whether the job may go on without a holder; then the lease stays, and says where.
        """
        if self.handed:
            return True
        self._over.set()
        self._thread.join()
        asked = False
        while True:
            found = read(self._store, self._key)
            if found is None and asked:
                return True  # the store has deleted it, and its answer was lost
            if found is None or found.lease.holder != self._found.lease.holder:
                self.lost.set()
                return False
            if lives and found.lease.place is not None:
                free = found.lease.model_copy(update={"holder": "", "process": None})
                if self._store.replace(self._key, seal_again(found.data, found.lease, free), expected=found.etag):
                    return True
            elif self._store.delete(self._key, expected=found.etag):
                return True
            asked = True

    def _keep_alive(self) -> None:
        while not self._over.wait(BEAT_S) and not self.lost.is_set() and time.monotonic() < self._until:
            with suppress(RatchetError):  # it is still ours; if the store does not answer for long, others see no beat
                self._beat()

    def _beat(self, changed: Mapping[str, object] = MappingProxyType({})) -> None:
        """One request, unless another process has changed the lease: then it is read, and written again."""
        with self._changing:
            while True:
                before, now = self._found, min(time.monotonic(), self._ended)
                again = {**changed, "beat": before.lease.beat + 1, "seconds": now - self._since}
                after = before.lease.model_copy(update=again)
                data = seal_again(before.data, before.lease, after)
                etag = self._store.swap(self._key, data, expected=before.etag) if before.etag else None
                if etag is not None:
                    self._found = Found(after, etag, data)
                    return
                found = read(self._store, self._key)
                if found is None or found.lease.holder != before.lease.holder:
                    self.lost.set()
                    return
                self._found = found


class Silence:
    """How long the holder of a lease has not been heard, as one who looks again and again may count it."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        """The lease as it was at the last look."""
        self._silent_s = self._looked = 0.0

    def is_stale(self, lease: Lease, asked: float) -> bool:
        """Whether the holder is dead, after a look that has the answer now. asked: `time.monotonic()` of its begin.

        What counts is the time between two looks, and no more than STALL_S of it: the store may have been away. After a
        look that took longer than STALL_S the count begins again.
        """
        now, seen = time.monotonic(), self.lease
        if seen is None or (lease.holder, lease.beat) != (seen.holder, seen.beat) or now - asked > STALL_S:
            self._silent_s = 0.0
        else:
            self._silent_s += min(asked - self._looked, STALL_S)
        self.lease, self._looked = lease, now
        return self._silent_s > STALE_S


class Waiter:
    """One caller that waits for a lease."""

    def __init__(
        self, store: Store, key: str, lease: Lease, *, succeeds: bool = True, engine: str | None = None
    ) -> None:
        """lease: the lease to take; no other caller uses the name of its holder. engine: the one that this one reaches.

        succeeds: whether a holder of the same run is an earlier try. False for an attempt that has lost the lease to a
        later one: the two would take it from each other without end.
        """
        self._store, self._key, self._new, self._succeeds = store, key, lease, succeeds
        self._engine, self._silence = engine, Silence()
        self.predecessor: Lease | None = None
        """The old lease, after a takeover: its job may still run."""
        self.elsewhere: Place | None = None
        """Where the job may live because of which the last `take` did not take the lease, although nobody holds it."""

    def take(self) -> Hold | None:
        """Take the lease if it is free, stale, of a dead process, or of an earlier try. None: call again later."""
        while True:
            asked, self.elsewhere = time.monotonic(), None
            found = read(self._store, self._key)
            if found is None:
                data = seal(self._new)
                made = self._store.create(self._key, data)
                return Hold(self._store, self._key, Found(self._new, "", data)) if made else None
            current = found.lease
            ours = (current.run_id, current.installation) == (self._new.run_id, self._new.installation)
            dead = current.process is not None and current.process.is_dead()
            # The silence first: it also notes the lease.
            if not (self._silence.is_stale(current, asked) or (self._succeeds and ours) or dead or not current.holder):
                return None
            taken_over = self._new.model_copy(update={"beat": current.beat + 1})
            if (place := current.place) is not None and place.engine != self._engine:
                if not is_lost(self._store, found.entry, place):
                    self.elsewhere = place
                    return None
            elif place is not None or (ours and current.end is not None):
                # The job goes on, and looks at its lease: it is still the one that the lease names.
                names = ("attempt", "started", "place", "seconds", "ending", "end")
                kept = {name: getattr(current, name) for name in names}
                taken_over = taken_over.model_copy(update=kept)
            data = seal(taken_over)
            if (etag := self._store.swap(self._key, data, expected=found.etag)) is not None:
                self.predecessor = current
                return Hold(self._store, self._key, Found(taken_over, etag, data))
            # It changed since it was read. A beat does not change our right to the lease: read again.

    @property
    def holder(self) -> Lease | None:
        """The lease of another attempt, at the last `take`."""
        return self._silence.lease


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


def holder_of(store: Store, key: str) -> Lease | None:
    """The lease in the store, if there is one."""
    found = read(store, key)
    return found.lease if found else None


class Found(NamedTuple):
    """A lease in the store. etag: empty where it is not known. entry: of one that was read."""

    lease: Lease
    etag: str
    data: bytes
    entry: Entry | None = None


def read(store: Store, key: str) -> Found | None:
    """The lease in the store. A damaged lease has no beat, so it becomes stale; see also OF_ANOTHER_RELEASE."""
    entry = store.head(key)
    if entry is None:
        return None
    try:
        data = store.read(key)
    except FileNotFoundError:
        return None
    try:
        remedy = "wait until it is stale and another attempt takes it over"
        found = unseal(data, Lease, where=f"{store.uri}/{key}", remedy=remedy)
    except CorruptArtifact:
        found = _unknown(DAMAGED, DAMAGED)
    except OtherRelease:
        found = _unknown(OF_ANOTHER_RELEASE, entry.etag)
    return Found(found, entry.etag, data, entry)


def _unknown(name: str, holder: str) -> Lease:
    return Lease(run_id=name, attempt=name, holder=holder, started=datetime.fromtimestamp(0, UTC))
