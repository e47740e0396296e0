"""A day's part: the result of a stage for one day, published under its fingerprint, so that later runs reuse it.

A change here violates the promise of the project when a damaged part is reused, a published part is replaced without a
rebuild or without a trace, or a run that used a replaced part can no longer read it. See docs/adr/015.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Generic, Protocol, TypeVar

from ratchet.contracts import paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, Preempted, Unavailable
from ratchet.contracts.fingerprint import fingerprint
from ratchet.contracts.quantities import show_memory
from ratchet.contracts.reproduction import PART as REPRODUCTION
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import Resources, section
from ratchet.runtime.context import StageContext
from ratchet.runtime.parts_index import IndexOfParts
from ratchet.runtime.stage_environment import stage_environment
from ratchet.store.base import Entry
from ratchet.store.lease import Waiter, new_lease
from ratchet.store.publishing import Transaction, discard_damaged, find_result, verify
from ratchet.store.renewal import renew

_POLL_S = 0.3
"""Seconds between two looks at the lease of another run."""
_NIGHTS = 30
"""The bytes of a day that nobody has written are compared once in so many nights; a disk may lose a bit by itself."""
REBUILD = "rebuild."
"""Before a day: the part of a request that has it computed again."""
_OVERLAP = 2  # two days overlap even on one processor: one waits for the store while the other computes


class DaySource(Protocol):
    """The input of a part: the source's files of a day, or its rows."""

    @property
    def day(self) -> date:
        """The day."""
        ...


Source = TypeVar("Source", bound=DaySource)
Part = TypeVar("Part")
_Built = tuple[PublishedResult | None, Part | None, int | None]
"""A day's part as published and as read, and its rows if it is new."""


@dataclass(frozen=True, kw_only=True)
class NewPart:
    """A new part, whose outputs are in the transaction.

    content: sha256 of the part's meaning, without paths and times. rows: the day's rows, for the log. summary: the
    part's document, if it has one.
    """

    content: str
    rows: int
    summary: Document | None = None


@dataclass(frozen=True, kw_only=True)
class DayParts(Generic[Source, Part]):
    """The parts of one kind that a stage needs, each read from the store or computed now.

    name: the kind, such as `ingest.day`. verb: the word in the log for a new part, such as `ingested`. common: the
    parts of the fingerprint that all days share. identity: the parts of one day's fingerprint. make: adds the outputs
    of a part to the transaction; its folder is empty, private and deleted afterwards; None if the day has no part that
    later runs may reuse. read: reads the part of a manifest; raises CorruptArtifact if it is damaged. indexed: whether
    an index has those that were used last; their outputs have to lie in their own place. unread: gets the keys of files
    over the network that were taken by their size; nobody has compared their bytes.
    """

    ctx: StageContext
    name: str
    verb: str
    common: Mapping[str, str]
    identity: Callable[[Source], Mapping[str, str]]
    make: Callable[[Source, Transaction, Path], NewPart | None]
    read: Callable[[PublishedResult], Part]
    indexed: bool = True
    unread: set[str] = field(default_factory=set)
    _new: dict[str, Entry] = field(default_factory=dict)

    def build(self, days: Iterable[Source], *, memory: int) -> dict[date, Part]:
        """Find or compute every day's part, oldest first, but for days without one, and in a share those of others.

        memory: the bytes that the largest of them needs. A day that another run computes is left to it, and waited for
        when no other day is left, so that runs on several hosts share the days of a window. Uses threads: reading,
        hashing and encoding release Python's lock. Raises the errors of `make`, PublishConflict if a day's
        content differs from the published one, CorruptArtifact, and Preempted while it waits.
        """
        found: dict[date, Part] = {}
        used: dict[str, PublishedResult] = {}
        wanted = list(reversed(list(days)) if self.ctx.request.share else days)  # from the other end
        index = self._index() if wanted and self.indexed and not (self._doubted or self._is_reproduction) else None
        pool = ThreadPoolExecutor(workers(self.ctx.spec.resources_of(self.ctx.request.stage), memory))
        try:
            done, left = 0, wanted
            for patient in (False,) if self.ctx.request.share else (False, True):
                futures = {pool.submit(self._find_or_make, day, index, patient=patient): day for day in left}
                left = []
                for future in as_completed(futures):
                    day = futures[future]
                    if (built := future.result()) is None:
                        left.append(day)
                        continue
                    published, part, rows = built
                    if published is not None and part is not None:
                        used[published.result.fingerprint], found[day.day] = published, part
                    done += 1
                    verb = "reused" if rows is None else f"{self.verb} {rows:,} rows of"
                    self.ctx.log.progress(f"{verb} {day.day}", done=done, total=len(wanted))
        finally:
            pool.shutdown(cancel_futures=True)
        if index is not None and not self.ctx.request.share:
            index.keep(used, self._new, self.unread)
        return dict(sorted(found.items()))

    def _stored(self) -> dict[str, Entry]:
        """The files of this kind of part. Outputs of it that lie elsewhere are not in it."""
        place = paths.published(self.ctx.spec.name, self.name)
        return {entry.key: entry for entry in self.ctx.store.list(place)}

    def _index(self) -> IndexOfParts:
        return IndexOfParts(self.ctx.store, paths.parts_index(self.ctx.spec.name, self.name), self._stored())

    def _find(self, day: Source, index: IndexOfParts | None) -> tuple[PublishedResult, Part] | None:
        """Find the published part of a day, verified. Logs a damaged one and moves it aside, to compute it again."""
        prefix = self._prefix(self._parts(day))
        with suppress(CorruptArtifact):
            turn = is_turn(self.ctx, day.day)
            known = index.find(fingerprint(self._parts(day))) if index is not None else None
            if index is not None and known is not None:
                far = self.ctx.store.local(known.key) is None
                if not turn or not verify(self.ctx.store, known, quick=far, stored=index.stored):
                    return known, self.read(known)
        try:
            found = find_result(self.ctx.store, prefix)
            if found is None:
                return None
            quick = self.ctx.store.local(found.key) is None and not self._doubted
            if not verify(self.ctx.store, found, quick=quick):
                if not renew(self.ctx.store, found):
                    return None
                self.unread.update(one.key for one in found.result.outputs.values() if quick)
                return found, self.read(found)
        except CorruptArtifact:
            pass
        if damaged := discard_damaged(self.ctx.store, prefix):
            message = f"{prefix}: {', '.join(damaged)} damaged; the stage computes the part again"
            self.ctx.log.event("damaged", message, level="warning")
        return None

    @cached_property
    def _doubted(self) -> bool:
        """See `doubted`; one question to the store is enough."""
        return doubted(self.ctx)

    @property
    def _is_reproduction(self) -> bool:
        return REPRODUCTION in self.ctx.request.parts

    def _parts(self, day: Source) -> dict[str, str]:
        own = {REPRODUCTION: self.ctx.request.parts[REPRODUCTION]} if self._is_reproduction else {}
        return {**self.common, **self.identity(day), **own}

    def _prefix(self, parts: Mapping[str, str]) -> str:
        return paths.published(self.ctx.spec.name, self.name, fingerprint(parts))

    def _find_or_make(self, day: Source, index: IndexOfParts | None, *, patient: bool) -> _Built[Part] | None:
        """A day's part. Only one run at a time computes it; None if another run does, and this one is not patient."""
        # Also in a rebuild: equal content keeps the published bytes, and `_find` moves them aside if they are damaged.
        found = self._find(day, index)
        if found is not None and not rebuilds(self.ctx, day.day):
            return *found, None
        with self._lease(day, patient=patient) as is_held:
            if not is_held:
                return None
            # It may have been made between the two: of rows that change meanwhile, twice would be a conflict.
            if not rebuilds(self.ctx, day.day) and (found := self._find(day, None)) is not None:
                return *found, None
            return self._make(day)

    @contextmanager
    def _lease(self, day: Source, *, patient: bool) -> Iterator[bool]:
        """Hold the lease of a day's part; yields whether it is held. Without patience another holder is left it."""
        request = self.ctx.request
        key = paths.lease(self.ctx.spec.name, self.name, fingerprint(self._parts(day)))
        # A share is no earlier try of its stage, whose leases that would take.
        run_id = f"{request.run_id} share {request.share}" if request.share else request.run_id
        waiter = Waiter(self.ctx.store, key, new_lease(run_id, f"{request.attempt}-{token_hex(4)}"))
        said = False
        while (hold := waiter.take()) is None:
            if not patient:
                yield False
                return
            if not said and waiter.holder is not None:
                self.ctx.log.event("waiting", f"{self.name} {day.day}: waiting for run {waiter.holder.run_id}")
            said = True
            if self.ctx.stopping.wait(_POLL_S):
                raise Preempted(f"{request.stage} received a notice to stop")
        try:
            yield True
        finally:
            hold.release()

    def _make(self, day: Source) -> _Built[Part]:
        parts = self._parts(day)
        transaction = Transaction(self.ctx.store, self._prefix(parts), self.ctx.request.attempt)
        with TemporaryDirectory(prefix=f"{self.name}-{paths.day(day.day)}-", dir=self.ctx.disk) as folder:
            made = self.make(day, transaction, Path(folder))
        if made is None:
            return None, None, 0
        try:
            self.ctx.refuse_later_removal()
        except Unavailable:
            transaction.abandon()
            raise
        done = self._publish(transaction, parts, made, rebuild=rebuilds(self.ctx, day.day))
        return done, self.read(done), made.rows

    def _publish(
        self, transaction: Transaction, parts: Mapping[str, str], made: NewPart, *, rebuild: bool
    ) -> PublishedResult:
        """Publish the part: ours, or the equal one of an attempt that was faster."""
        prefix = self._prefix(parts)
        done = transaction.commit(
            stage=self.name,
            fingerprint=fingerprint(parts),
            parts=parts,
            content=made.content,
            summary=made.summary,
            rebuild=rebuild,
            environment=stage_environment(),
        )
        if done.superseded:
            message = (
                f"{prefix}: the rebuild gave other content, which later runs use; the old manifest is {done.superseded}"
            )
            self.ctx.log.event("superseded", message, level="warning")
        made_now = {entry.key: entry for entry in self.ctx.store.list(prefix)}
        if done.result.attempt == self.ctx.request.attempt:
            self._new.update(made_now)
        if verify(self.ctx.store, done, quick=True, stored=made_now):
            raise CorruptArtifact(f"{self.ctx.store.uri}/{prefix}: the new part is damaged", remedy="run again")
        return done


def is_turn(ctx: StageContext, day: date) -> bool:
    """Whether the bytes of a day are compared in this night although nobody has written them, see _NIGHTS."""
    return (day.toordinal() + ctx.request.data_date.toordinal()) % _NIGHTS == 0


def doubted(ctx: StageContext) -> bool:
    """Whether this stage's result was damaged before, or a person requests a rebuild, to trust nothing.

    Without doubt, a store over the network is asked for sizes only. Readers check every digest in any case.
    """
    return "rebuild" in ctx.request.parts or any(ctx.store.list(paths.damaged(ctx.request.prefix)))


def rebuilds(ctx: StageContext, day: date) -> bool:
    """Whether every day is computed again, or this one."""
    return "rebuild" in ctx.request.parts or f"{REBUILD}{paths.day(day)}" in ctx.request.parts


def refuse_too_large(ctx: StageContext, day: date, rows: int, memory: int) -> None:
    """Raise ConfigurationError for a day that the stage's memory does not hold. memory: the bytes that it needs."""
    stage, allowed = section(ctx.request.stage), ctx.spec.resources_of(ctx.request.stage).memory
    if memory > allowed:
        raise ConfigurationError(
            f"resources.{stage}.memory: {show_memory(allowed)} does not hold {day}: its {rows:,} rows need about"
            f" {memory / 2**30:.1f} GiB",
            remedy=f"set resources.{stage}.memory to {math.ceil(memory / 2**30)}g or more",
        )


def workers(resources: Resources, memory: int) -> int:
    """The number of days to compute at once: one for each processor, at least two, if they fit into half the memory.

    memory: the bytes that the largest day needs.
    """
    return max(1, min(max(_OVERLAP, int(resources.cpus)), int(resources.memory / 2 / max(memory, 1))))
