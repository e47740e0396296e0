"""A person's change of production: who, why, and the record of it.

A change here violates the promise of the project when production can be changed by hand without a name and a reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ratchet.contracts.errors import ConfigurationError
from ratchet.production.findings import LOSSES
from ratchet.production.reconcile import Reconciled, reconcile
from ratchet.production.standing import Standing, standing
from ratchet.store.base import Store
from ratchet.store.ledger import Change, LedgerConflict, Record, append
from ratchet.store.ledger_record import Action

_TRIES = 10
LONGEST = 1000
"""Characters of a name or a reason."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """A change that is recorded. before: the champion until then. reconciled: what became of the alias."""

    record: Record
    before: Record | None
    reconciled: Reconciled


def carry_out(store: Store, tracking_uri: str | None, model: str, act: Callable[[], Record]) -> Done:
    """Make a change in the ledger, and let the alias follow at once.

    A registry that does not answer does not stop it: the record stays, and the alias follows later. Raises
    CorruptArtifact, and changes nothing, if records of the ledger are lost.
    """
    found = reconcile(store, tracking_uri, model)
    if found.shows(*LOSSES):
        found.refuse()
    record = act()
    return Done(record=record, before=found.live, reconciled=reconcile(store, tracking_uri, model, force=True))


def record_decision(store: Store, model: str, decide: Callable[[Standing], Change]) -> Record:
    """Append what `decide` makes of the ledger; it is asked again if another writer was first."""
    for left in reversed(range(_TRIES)):
        now = standing(store, model)
        try:
            return append(store, decide(now), after=now.number)
        except LedgerConflict:
            if not left:
                raise
    raise AssertionError("the loop ends by itself")


def by_hand(champion: Record, action: Action, *, by: str, because: str, **more: Any) -> Change:
    """The change of a person. champion: whose model is in production after it; its origin is repeated."""
    check_words(by, because)
    origin = champion.model_dump(
        include={
            *("model", "version", "fingerprint", "model_digest", "manifests", "data_date", "window_start", "pipeline"),
            *("run_id", "baseline", "let_in", "recipe", "scoring", "refit_of"),
        }
    )
    given = {"action": action, "reason": because, "recorded": datetime.now(UTC), "started_by": by, "by_hand": True}
    return Change.model_validate({**origin, **given, **more})


def check_words(by: str, because: str, *, flag: str = "--because") -> None:
    """Raise ConfigurationError if nobody is named, no reason is given, or either is more than a line of text.

    flag: with which the reason is given.
    """
    for name, text in (("--by", by), (flag, because)):
        if not text.strip():
            raise ConfigurationError(f"{name} is empty", remedy="name the person and the reason")
        if len(text) > LONGEST or not text.isprintable():
            raise ConfigurationError(
                f"{name} is no line of text; allowed: {LONGEST} characters, without line breaks and control characters",
                remedy="write it shorter, in one line",
            )


def live_of(now: Standing) -> Record:
    """The champion. Raises ConfigurationError if there is none."""
    if now.live is None:
        raise ConfigurationError(
            f"no model of {now.model} is in production in this store",
            remedy=f"check the name (register.model of the pipeline) and --store; `ratchet doctor {now.model}` says "
            "whether its ledger is lost",
        )
    return now.live
