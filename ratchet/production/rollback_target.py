"""The champion that a rollback goes to: one that was in production, that is not banned, and that the registry has.

A change here violates the promise of the project when a rollback is recorded that the registry's alias cannot follow:
services then go on with the model that was just banned.
"""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.production.reconcile import version_of
from ratchet.production.standing import Standing
from ratchet.store.base import Store
from ratchet.store.ledger import Record
from ratchet.tracking.registry import Registry
from ratchet.tracking.use_registry import use_registry


def last_different(store: Store, tracking_uri: str | None, now: Standing, live: Record) -> Record:
    """The last champion with another model that is not banned and that the registry has.

    Where the registry does not answer, the last one that is not banned. Raises ConfigurationError if there is none.
    """
    found: dict[tuple[str, str], Record] = {}
    for record in reversed(now.history[: live.number - 1]):
        other = record.moves_production and record.model_digest != live.model_digest
        if other and now.ban_of(record.model_digest, record.recipe) is None:
            found.setdefault((record.model_digest, record.scoring), record)
    if not found:
        raise ConfigurationError(
            f"{now.model} had no other champion before version {live.version} that is not banned",
            remedy=f"see `ratchet history {now.model}`; release one that may return, or promote a registered version: "
            f"`ratchet promote {now.model}@VERSION --because WHY`",
        )
    return _first_registered(store, tracking_uri, list(found.values()), remedy=_promote(now.model))


def named(store: Store, tracking_uri: str | None, now: Standing, live: Record, version: str) -> Record:
    """The newest record that put this version into production.

    Raises ConfigurationError if none did, if it is in production, if it is banned, or if the registry lacks it.
    """
    reigns = [record for record in now.history if record.moves_production and record.version == version]
    if not reigns:
        was = ", ".join(dict.fromkeys(record.version for record in now.history if record.moves_production))
        raise ConfigurationError(
            f"version {version} of {now.model} was never in production; allowed: {was}",
            remedy=f"to put a version into production that never was: `ratchet promote {now.model}@{version} "
            "--because WHY`",
        )
    if reigns[-1].model_digest == live.model_digest:
        raise ConfigurationError(
            f"version {version} of {now.model} is in production already", remedy="nothing has to be done"
        )
    if banned := now.ban_of(reigns[-1].model_digest, reigns[-1].recipe):
        raise ConfigurationError(f"{now.model}: {banned.sentence}", remedy="release it first if it may return")
    last = f"take the last one that it has: `ratchet rollback {now.model} --because WHY`"
    return _first_registered(store, tracking_uri, [reigns[-1]], remedy=last)


def _first_registered(store: Store, tracking_uri: str | None, targets: Sequence[Record], *, remedy: str) -> Record:
    """The first that the registry has; the first of all where the registry does not answer."""
    with tempfile.TemporaryDirectory(prefix="ratchet-") as folder:
        try:
            work = partial(_look, targets=targets)
            address, found = use_registry(store, tracking_uri, Path(folder), work)
        except (Unavailable, ConfigurationError):
            return targets[0]  # the record stays, and the alias follows later
    if found is not None:
        return found
    model, lacked = targets[0].model, ", ".join(f"{one.version} ({one.model_digest[:12]})" for one in targets)
    which = f"version {lacked}" if len(targets) == 1 else f"any of the versions {lacked}"
    raise ConfigurationError(
        f"the registry at {address} does not have the model of {which} of {model}; nothing was rolled back",
        remedy=f"restore MLflow's data, or correct {variable('tracking_uri')} if it is another server; where no backup "
        f"has it, `ratchet doctor {model}@{targets[0].version} --register-again WHY` first; or {remedy}",
    )


def _look(registry: Registry, *, targets: Sequence[Record]) -> tuple[str, Record | None]:
    return registry.address, next((one for one in targets if version_of(registry, one) is not None), None)


def _promote(model: str) -> str:
    return f"put a version that it has into production: `ratchet promote {model}@VERSION --because WHY`"
