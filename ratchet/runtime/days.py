"""A day's part: what a stage makes of one day, published under a fingerprint of its own, so that later runs reuse it.

A change here violates the promise of the project when a damaged part is reused, a published part is replaced without a
rebuild or without a trace, or a run that was made from a replaced part can no longer read it. See docs/adr/015.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, Protocol, TypeVar

from ratchet.contracts import paths
from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact, PublishConflict
from ratchet.contracts.fingerprint import fingerprint
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import Resources
from ratchet.runtime.context import StageContext
from ratchet.store.file import FileStore
from ratchet.store.publishing import Transaction, discard_damaged, find_result, supersede, verify

_OVERLAP = 2  # even one processor has work for two days: one waits for the store while the other computes


class DaySource(Protocol):
    """What a part is made of: the source's files of a day, or its rows."""

    @property
    def day(self) -> date:
        """The day."""
        ...


Source = TypeVar("Source", bound=DaySource)
Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True)
class NewPart:
    """A part whose outputs are in the transaction.

    content: sha256 of what the part means, free of places and times. rows: the day's rows, for the log.
    summary: the part's document, where it has one.
    """

    content: str
    rows: int
    summary: Document | None = None


@dataclass(frozen=True, kw_only=True)
class DayParts(Generic[Source, Part]):
    """The parts of one kind that a stage needs, each from the store or made now.

    name: the kind, such as `ingest.day`. verb: what making one is called in the log, such as `ingested`.
    common: what every part depends on. identity: what the part of one day depends on besides.
    make: puts a part's outputs into the transaction; its folder is empty, private and gone afterwards.
    read: the part from its manifest. Raises CorruptArtifact if it is damaged.
    """

    ctx: StageContext
    name: str
    verb: str
    common: Mapping[str, str]
    identity: Callable[[Source], Mapping[str, str]]
    make: Callable[[Source, Transaction, Path], NewPart]
    read: Callable[[PublishedResult], Part]

    def build(self, days: Iterable[Source], *, memory: int) -> dict[date, Part]:
        """Every day's part, oldest first. memory: what making the largest of them takes, in bytes.

        In threads: reading, hashing and encoding release Python's lock. Raises what `make` raises, PublishConflict if a
        day's content is not the published one, and CorruptArtifact.
        """
        found: dict[date, Part] = {}
        wanted = list(days)
        pool = ThreadPoolExecutor(workers(self.ctx.spec.resources[self.ctx.request.stage], memory))
        try:
            futures = {pool.submit(self._find_or_make, day): day.day for day in wanted}
            for done, future in enumerate(as_completed(futures), start=1):
                day = futures[future]
                found[day], rows = future.result()
                verb = "reused" if rows is None else f"{self.verb} {rows:,} rows of"
                self.ctx.log.progress(f"{verb} {day}", done=done, total=len(wanted))
        finally:
            pool.shutdown(cancel_futures=True)
        return dict(sorted(found.items()))

    def find(self, day: Source) -> Part | None:
        """The published part of a day, verified. A damaged one is reported, and moved aside to be made again."""
        prefix = self._prefix(self._parts(day))
        try:
            found = find_result(self.ctx.store, prefix)
            if found is None:
                return None
            if not verify(self.ctx.store, found, quick=self._quick):
                return self.read(found)
        except CorruptArtifact:
            pass
        if damaged := discard_damaged(self.ctx.store, prefix):
            message = f"{prefix}: {', '.join(damaged)} damaged; the part is made again"
            self.ctx.log.event("damaged", message, level="warning")
        return None

    @cached_property
    def _quick(self) -> bool:
        """Whether sizes alone are compared: in a store over the network, while there is no reason to doubt it.

        Every byte is read from a local disk, where that takes seconds; once this stage's result was found damaged; and
        in a rebuild, which a person asks for who trusts nothing. Readers check every digest in any case.
        """
        doubted = self._rebuild or any(self.ctx.store.list(f"{self.ctx.request.prefix}/damaged"))
        return not doubted and not isinstance(self.ctx.store, FileStore)

    @property
    def _rebuild(self) -> bool:
        return "rebuild" in self.ctx.request.parts

    def _parts(self, day: Source) -> dict[str, str]:
        return {**self.common, **self.identity(day)}

    def _prefix(self, parts: Mapping[str, str]) -> str:
        return paths.published(self.ctx.spec.name, self.name, fingerprint(parts))

    def _find_or_make(self, day: Source) -> tuple[Part, int | None]:
        """A day's part, and its rows if it was made now."""
        found = self.find(day)
        if found is not None and not self._rebuild:
            return found, None
        parts = self._parts(day)
        transaction = Transaction(self.ctx.store, self._prefix(parts), self.ctx.request.attempt)
        with TemporaryDirectory(prefix=f"{self.name}-{paths.day(day.day)}-", dir=self.ctx.disk) as folder:
            made = self.make(day, transaction, Path(folder))
        return self.read(self._publish(transaction, parts, made)), made.rows

    def _publish(self, transaction: Transaction, parts: Mapping[str, str], made: NewPart) -> PublishedResult:
        """The part in the store: ours, or the same of an attempt that was quicker."""
        prefix = self._prefix(parts)
        commit = partial(
            transaction.commit,
            stage=self.name,
            fingerprint=fingerprint(parts),
            parts=parts,
            content=made.content,
            summary=made.summary,
        )
        try:
            done = commit()
        except PublishConflict:
            if not self._rebuild:
                raise
            if kept := supersede(self.ctx.store, prefix):
                message = f"{prefix}: the rebuild made other content, which later runs take; the old manifest is {kept}"
                self.ctx.log.event("superseded", message, level="warning")
            done = commit()
        if verify(self.ctx.store, done, quick=True):
            raise CorruptArtifact(
                f"{self.ctx.store.uri}/{prefix}: what was just published is damaged", remedy="run again"
            )
        return done


def workers(resources: Resources, memory: int) -> int:
    """How many days to make at once: one for each processor, two at least, while they fit into half of the memory.

    memory: what making the largest day takes, in bytes.
    """
    return max(1, min(max(_OVERLAP, int(resources.cpus)), int(resources.memory / 2 / max(memory, 1))))
