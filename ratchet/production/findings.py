"""Whether ledger and registry allow a decision about production: each state that does not has a name and a remedy.

A change here violates the promise of the project when a lost ledger, or one of another registry, reads like a first
night.
"""

from collections.abc import Sequence

from ratchet.contracts import paths
from ratchet.contracts.authority import Finding
from ratchet.contracts.environment import variable
from ratchet.contracts.errors import CorruptArtifact
from ratchet.production.standing import standing_of
from ratchet.store.ledger import Record
from ratchet.tracking.registry import CHAMPION, Registry, Version

LOSSES = ("ledger-behind", "ledger-damaged")
"""Findings about a ledger that has records, and has lost some."""


def compare(
    model: str, history: Sequence[Record], alias: Version | None, recorded: Sequence[Version], registry: Registry
) -> Finding | None:
    """What is wrong between a whole ledger and the registry; None where the alias may be moved.

    alias: the version that it names. recorded: the versions with the tag of a record, the newest while they were in
    production. Both are read before the ledger, which is written first; so a number that the ledger lacks was lost, and
    is not new.
    """
    if alias is not None:
        found = _of_alias(model, history, alias, registry)
        if found is not None:
            return found
    newest = max(recorded, key=lambda version: version.record, default=None)
    if newest is None or newest.record <= len(history):
        return None
    by = f"version {newest.number} of {model} at {registry.address} was in production by record {newest.record}"
    if not history:
        return _lost(model, newest, by)
    due = paths.record_below(paths.ledger(model), len(history) + 1)
    return _behind(model, f"the ledger ends with record {len(history)}, and {by}", due)


def _of_alias(model: str, history: Sequence[Record], alias: Version, registry: Registry) -> Finding | None:
    named = f"the alias {CHAMPION} of {model} at {registry.address} names version {alias.number}"
    if not alias.digest:
        return _foreign(history, named)
    if not history:
        return _lost(model, alias, named)
    if alias.record > len(history):
        due = paths.record_below(paths.ledger(model), len(history) + 1)
        return _behind(
            model, f"the ledger ends with record {len(history)}, and {named} by its record {alias.record}", due
        )
    if alias.record and history[alias.record - 1].model_digest != alias.digest:
        due = paths.record_below(paths.ledger(model), alias.record)
        return _behind(model, f"{named} by record {alias.record}, and in the ledger that is another model", due)
    return None


def damaged(model: str, error: CorruptArtifact) -> Finding:
    """The finding about a ledger that is not whole."""
    return Finding(
        name="ledger-damaged",
        explanation=error.cause,
        remedy=f"{error.remedy}; `ratchet doctor {model}` says when it is whole; where no backup has it, "
        f"`ratchet doctor {model} --accept-loss WHY` goes on with the records before it",
    )


def registry_behind(live: Record, history: Sequence[Record], alias: Version | None, registry: Registry) -> Finding:
    """The finding about a registry that has no version of the champion's model.

    alias: what it names; a model that was rolled back may be in service again, which is said.
    """
    banned = standing_of(live.model, history).ban_of(alias.digest) if alias is not None else None
    served = f"; the alias names a model that was rolled back: {banned.sentence}" if banned is not None else ""
    return Finding(
        name="registry-behind",
        explanation=f"the registry at {registry.address} has no version with the model {live.model_digest[:12]}, which "
        f"the ledger of {live.model} names as {CHAMPION} (version {live.version}, record {live.number}){served}",
        remedy=f"restore MLflow's data, or correct {variable('tracking_uri')} if it is not the server that the ledger "
        f"was written with; or put a version that it has into production: `ratchet rollback {live.model}@VERSION "
        f"--because WHY`; where no backup has it, `ratchet doctor {live.model} --register-again WHY` makes the version "
        "again from the store",
    )


def unreadable(finding: Finding | None) -> bool:
    """Whether nothing can be looked up in the ledger."""
    return finding is not None and finding.name == "ledger-damaged"


def _foreign(history: Sequence[Record], named: str) -> Finding:
    live = "; or `ratchet doctor`, once the alias is removed, sets it to what the ledger names" if history else ""
    return Finding(
        name="foreign-alias",
        explanation=f"{named}, which Ratchet did not register",
        remedy=f"remove the alias in MLflow if that version is not meant to serve, or choose another register.model "
        f"for this pipeline{live}",
    )


def _lost(model: str, version: Version, named: str) -> Finding:
    return Finding(
        name="ledger-lost",
        explanation=f"the store has no ledger of {model}, and {named}",
        remedy=f"restore {paths.ledger(model)}/ from a backup, or correct {variable('store')} if it is another store; "
        f"or begin a ledger with that version: `ratchet promote {model}@{version.number} --because WHY`",
    )


def _behind(model: str, explanation: str, due: str) -> Finding:
    return Finding(
        name="ledger-behind",
        explanation=explanation,
        remedy=f"restore {due} and what follows it from a backup; where no backup has it, `ratchet doctor {model} "
        "--accept-loss WHY` goes on with the ledger as it is",
    )
