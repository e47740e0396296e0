"""What a collection finds: what goes and what stays, each with a kind and a reason."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ratchet.store.base import Entry


class Wholes(NamedTuple):
    """Files that go together.

    guard: deleted first, and only as it was seen; without it no reader finds the others. None: the first of the others.
    """

    kind: str
    why: str
    guard: Entry | None
    others: tuple[Entry, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All of them, in the order in which they are deleted."""
        return self.others if self.guard is None else (self.guard, *self.others)


class Sum(NamedTuple):
    """How many objects, and how many bytes."""

    objects: int
    bytes: int

    def plus_one(self, size: int) -> "Sum":
        """With one more object of so many bytes."""
        return Sum(self.objects + 1, self.bytes + size)

    def plus(self, entries: Iterable[Entry]) -> "Sum":
        """With these."""
        sizes = [entry.bytes for entry in entries]
        return Sum(self.objects + len(sizes), self.bytes + sum(sizes))


Sums = dict[tuple[str, str], Sum]
"""By kind and reason."""


@dataclass
class Named:
    """What the plans of runs name that is shared.

    runs: those of which the records stay; bundles, releases, chains: what their plans name. images: those of runs that
    stay whole; gone_images: those of the others.
    """

    runs: set[str] = field(default_factory=set)
    bundles: set[str] = field(default_factory=set)
    releases: set[str] = field(default_factory=set)
    chains: set[str] = field(default_factory=set)
    images: set[str] = field(default_factory=set)
    gone_images: set[str] = field(default_factory=set)

    def add(self, other: "Named") -> None:
        """Add that of another pipeline."""
        for name, mine in vars(self).items():
            mine.update(vars(other)[name])


@dataclass
class Findings:
    """Of a pipeline, or of what all pipelines share.

    results, parts, checkpoints, rest: what goes, in this order; parts of days and checkpoints only while no stage runs
    that may have found one. stays: what stays. named: what plans name.
    """

    results: list[Wholes] = field(default_factory=list)
    parts: list[Wholes] = field(default_factory=list)
    checkpoints: list[Wholes] = field(default_factory=list)
    rest: list[Wholes] = field(default_factory=list)
    stays: Sums = field(default_factory=lambda: defaultdict(lambda: Sum(0, 0)))
    named: Named = field(default_factory=Named)

    def keep(self, kind: str, why: str, entries: Iterable[Entry]) -> None:
        """Count what stays."""
        if entries := tuple(entries):
            self.stays[kind, why] = self.stays[kind, why].plus(entries)

    @property
    def goes(self) -> Sums:
        """What goes."""
        return added((*self.results, *self.parts, *self.checkpoints, *self.rest))


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What a collection did with a pipeline, or with what is beside them, which `of` names.

    goes: what goes, or has gone. unchecked: why nothing goes. left: why some was left.
    """

    pipeline: str = ""
    of: str = "all pipelines together"
    goes: Sums = field(default_factory=dict)
    stays: Sums = field(default_factory=dict)
    unchecked: str = ""
    left: str = ""


def added(wholes: Iterable[Wholes]) -> Sums:
    """The sums of wholes."""
    found: Sums = defaultdict(lambda: Sum(0, 0))
    for one in wholes:
        found[one.kind, one.why] = found[one.kind, one.why].plus(one.entries)
    return dict(found)
