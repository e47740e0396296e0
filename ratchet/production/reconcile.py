"""The registry's alias follows the ledger: by the digest of the model, never by a number.

A change here violates the promise of the project when the alias can name a model that the ledger does not name as
champion, without a finding that says so; or when what could not be checked counts as checked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ratchet.contracts.authority import Finding
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, NoAnswer, RatchetError, Unavailable
from ratchet.production.findings import compare, damaged, registry_behind
from ratchet.store.base import Store
from ratchet.store.ledger import Record, champion_of, records, repair_head
from ratchet.tracking.registry import CHAMPION, Registry, Version
from ratchet.tracking.use_registry import use_registry

_MOST_ROUNDS = 20
"""Rounds in which other writers may move production before this one gives up."""


@dataclass(frozen=True, kw_only=True)
class Reconciled:
    """What became of the alias.

    live: the newest champion of the ledger. version: the registry's number of it. moved: from which version the alias
    was moved to it, empty if there was none; None if it was not moved. head: whether the ledger's head was repaired.
    unchecked: why nothing could be checked; then the rest says nothing about the registry.
    """

    live: Record | None = None
    version: str = ""
    moved: str | None = None
    head: bool = False
    finding: Finding | None = None
    unchecked: str = ""

    @property
    def agrees(self) -> bool:
        """Whether alias and ledger were seen to agree."""
        return self.finding is None and not self.unchecked

    def shows(self, *names: str) -> bool:
        """Whether the finding is one of these."""
        return self.finding is not None and self.finding.name in names

    def refuse(self) -> None:
        """Raise what a run may not go on with."""
        if self.finding is None:
            return
        cause = f"{self.finding.name}: {self.finding.explanation}"
        if self.finding.name.startswith("ledger"):
            raise CorruptArtifact(cause, remedy=self.finding.remedy)
        raise ConfigurationError(cause, remedy=self.finding.remedy)


def reconcile(
    store: Store, tracking_uri: str | None, model: str, *, force: bool = False, look: bool = False
) -> Reconciled:
    """Let the alias follow the ledger. Safe to call at any time, by many at once.

    The tag of the version in production names the newest record. force: after a person's own change of the ledger, an
    alias that says otherwise is moved in any case, and tags that name records which are lost are cleared. look: writes
    nothing. A registry that does not answer is no error: `unchecked` says so.
    """
    with TemporaryDirectory(prefix="ratchet-") as scratch:
        try:
            work = partial(follow, store, model, force=force, look=look)
            return use_registry(store, tracking_uri, Path(scratch), work)
        except (Unavailable, ConfigurationError) as error:
            return Reconciled(live=_champion(store, model), unchecked=str(error))


def follow(store: Store, model: str, registry: Registry, *, force: bool = False, look: bool = False) -> Reconciled:
    """The same with a registry that is open. Raises Unavailable if one of the two does not answer.

    After each move the ledger is read again, until it still names that model: a writer that is late moves the alias
    back to what its predecessor recorded, and then sees its mistake.
    """
    head, moved = False, None
    for _ in range(_MOST_ROUNDS):
        alias, recorded = registry.champion(model), registry.recorded(model)  # before the ledger, see `compare`
        try:
            head = (not look and _repair(store, model)) or head
            history = records(store, model)
        except CorruptArtifact as error:
            return Reconciled(finding=damaged(model, error))
        live = champion_of(history)
        finding = None if force else compare(model, history, alias, recorded, registry)
        if finding is not None or live is None:
            return Reconciled(live=live, head=head, finding=finding)
        if force:
            for lost in (version for version in recorded if version.record > len(history)):
                registry.mark(model, lost, 0)
        version = version_of(registry, live)
        if version is None:
            return Reconciled(live=live, head=head, finding=registry_behind(live, history, alias, registry))
        named = alias is not None and alias.number == version.number
        newest = len(history)  # also a hold or a release, so that their loss is noticed
        tagged = version.record == newest or (version.record > newest and not force)
        if look or (named and tagged):
            return Reconciled(live=live, version=version.number, moved=moved, head=head)
        if named:
            registry.mark(model, version, newest)
            continue
        registry.point(model, version, newest)
        if moved is None:
            moved = alias.number if alias else ""
    raise NoAnswer(f"production of {model} kept moving", remedy=f"run `ratchet doctor {model}` later")


def version_of(registry: Registry, record: Record) -> Version | None:
    """The registry's version of a record: with its model, scored by its package, and with its number if possible."""
    found = registry.find(record.model, record.model_digest)
    if record.scoring:
        found = tuple(version for version in found if version.scoring == record.scoring)
    same = (version for version in found if version.number == record.version)
    return next(same, found[0] if found else None)


def sentences(model: str, found: Reconciled) -> Iterator[str]:
    """What was repaired, what is wrong and what could not be checked: a line each, with what to do."""
    if found.head:
        yield f"the head of the ledger of {model} lagged, and was moved to its newest record"
    if found.moved is not None and found.live is not None:
        old = f"named version {found.moved}" if found.moved else "was missing"
        yield (
            f"the alias {CHAMPION} of {model} {old}, and was set to version {found.version}, as record "
            f"{found.live.number} of the ledger says"
        )
    if found.finding is not None:
        yield str(found.finding)
    if found.unchecked:
        yield f"whether the alias {CHAMPION} of {model} follows the ledger was not checked: {found.unchecked}"


def _repair(store: Store, model: str) -> bool:
    """Repair the ledger's head where this process may write it."""
    try:
        return repair_head(store, model)
    except (Unavailable, ConfigurationError):
        return False


def _champion(store: Store, model: str) -> Record | None:
    try:
        return champion_of(records(store, model))
    except RatchetError:
        return None
