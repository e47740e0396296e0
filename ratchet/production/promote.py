"""`promote`: a registered version into production by hand.

A change here violates the promise of the project when a version enters production whose files are not whole, whose
model is not the one of its tags, which is banned, or for which fewer people answer than its pipeline asks for, or other
people than it names.
"""

import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ratchet.contracts.authority import Approval, people, same_person
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.gate import Register
from ratchet.production.by_hand import by_hand, check_words, record_decision
from ratchet.production.loading import Load, load
from ratchet.production.reconcile import reconcile
from ratchet.production.standing import Standing, standing
from ratchet.production.version_origin import Origin, origin_of, rules_of
from ratchet.store.base import Store
from ratchet.store.ledger import Change, Record, records
from ratchet.tracking.registry import Registry, Version
from ratchet.tracking.use_registry import use_registry


def promote(
    store: Store,
    tracking_uri: str | None,
    model: str,
    version: str,
    *,
    by: str,
    because: str,
    approved_by: str | None = None,
    load: Load = load,
) -> Record:
    """Record a version of the registry as champion, whatever a verdict says of it.

    Its files are loaded and compared with its digest first. approved_by: the second person, where the pipeline's
    register.approvals is 2; where it names approvers, as many of them as it asks for answer, see `rules_of`. load:
    where the files are loaded. Where it begins a ledger in the place of a lost one, promotions are held from then on:
    nobody knows what was held or banned. Raises ConfigurationError for a version that Ratchet did not register, that
    cannot be loaded, that is banned, that is in production, or for which too few answer; CorruptArtifact for files that
    are gone or damaged; Unavailable.
    """
    check_words(by, because)
    with tempfile.TemporaryDirectory(prefix="ratchet-") as folder:
        found = use_registry(store, tracking_uri, Path(folder), partial(_registered, model=model, version=version))
    origin = origin_of(store, model, found, pipelines=[record.pipeline for record in records(store, model)])
    approvals = _approvals(origin, rules_of(store, origin), by, approved_by)
    _refuse(standing(store, model), origin.record)  # before seconds are spent on its files
    _check_digest(load(store, origin.record), found)
    lost = reconcile(store, tracking_uri, model, look=True).shows("ledger-lost")

    def decide(now: Standing) -> Change:
        _refuse(now, origin.record)
        more = {"baseline": now.live.number if now.live else None, "approvals": approvals}
        return by_hand(origin.record, "promote", by=by, because=because, holds=lost and now.number == 0, **more)

    return record_decision(store, model, decide)


def _refuse(now: Standing, wanted: Record) -> None:
    """Raise ConfigurationError if a version is in production, or may not be."""
    if now.live is not None and now.live.model_digest == wanted.model_digest:
        raise ConfigurationError(
            f"version {wanted.version} of {now.model} is in production already", remedy="nothing has to be done"
        )
    if obstacle := now.obstacle(wanted.model_digest, wanted.recipe):
        raise ConfigurationError(f"{now.model}: {obstacle}", remedy="release it first if it may go into production")


def _registered(registry: Registry, *, model: str, version: str) -> Version:
    found = registry.version(model, version)
    if found is None:
        raise ConfigurationError(
            f"the registry at {registry.address} has no version {version} of {model}",
            remedy="name one that it has, as MODEL@VERSION",
        )
    if not found.digest:
        raise ConfigurationError(
            f"version {version} of {model} was not registered by Ratchet, so nothing is known of its training",
            remedy="name a version with the tag ratchet.model_digest",
        )
    return found


def _approvals(origin: Origin, rules: Register, by: str, approved_by: str | None) -> tuple[Approval, ...]:
    """Who answers for it. Raises ConfigurationError if they are fewer than the pipeline asks for, or others."""
    names = tuple(people((by, approved_by or "")))
    if len(names) < rules.approvals:
        raise ConfigurationError(
            f"register.approvals of {origin.record.pipeline} is {rules.approvals}, and {len(names)} answers for this",
            remedy="give the name of a second person: --approved-by NAME; case and spaces make no other person",
        )
    _refuse_others(origin, rules, names)
    now = datetime.now(UTC)
    return tuple(Approval(name=name, at=now, how="ratchet promote") for name in names)


def _refuse_others(origin: Origin, rules: Register, names: tuple[str, ...]) -> None:
    """Raise ConfigurationError if too few of them may approve, where the pipeline names those who may."""
    allowed = rules.approvers
    ours = [name for name in names if any(same_person(name, one) for one in allowed)]
    if allowed and len(ours) < rules.approvals:
        others = " and ".join(name for name in names if name not in ours)
        asked = f"{rules.approvals} of them have" if rules.approvals > 1 else "one of them has"
        raise ConfigurationError(
            f"register.approvers of {origin.record.pipeline} does not name {others}; allowed: {', '.join(allowed)}",
            remedy=f"{asked} to answer for it, by the name that is there: --by NAME, --approved-by NAME; in Airflow, "
            "one of them triggers the run",
        )


def _check_digest(loaded: str, version: Version) -> None:
    if loaded != version.digest:
        raise CorruptArtifact(
            f"the files of version {version.number} are model {loaded[:12]}, and its tags name {version.digest[:12]}",
            remedy="restore the files of its training from a backup, or promote another version",
        )
