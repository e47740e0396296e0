"""`promote`: a registered version into production by hand.

A change here violates the promise of the project when a version enters production whose files are not whole, whose
model is not the one of its tags, which is banned, or for which fewer people answer than its pipeline asks for.
"""

import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ratchet.contracts.authority import Approval
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.production.by_hand import by_hand, record_decision
from ratchet.production.standing import Standing
from ratchet.production.version_origin import Origin, origin_of
from ratchet.store.artifacts import read_bytes
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
) -> Record:
    """Record a version of the registry as champion, whatever a verdict says of it.

    Its files are loaded and compared with its digest first. approved_by: the second person, where the pipeline's
    register.approvals is 2. Raises ConfigurationError for a version that Ratchet did not register, that is banned, or
    that is in production; CorruptArtifact for files that are gone or damaged; Unavailable.
    """
    with tempfile.TemporaryDirectory(prefix="ratchet-") as folder:
        found = use_registry(store, tracking_uri, Path(folder), partial(_registered, model=model, version=version))
        origin = origin_of(store, model, found, pipelines=[record.pipeline for record in records(store, model)])
        approvals = _approvals(origin, by, approved_by)
        _load(store, origin, found, Path(folder))

    def decide(now: Standing) -> Change:
        if now.live is not None and now.live.model_digest == found.digest:
            raise ConfigurationError(
                f"version {version} of {model} is in production already", remedy="nothing has to be done"
            )
        if obstacle := now.obstacle(found.digest, origin.recipe):
            raise ConfigurationError(f"{model}: {obstacle}", remedy="release it first if it may go into production")
        baseline = now.live.number if now.live else None
        return by_hand(origin.record, "promote", by=by, because=because, baseline=baseline, approvals=approvals)

    return record_decision(store, model, decide)


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


def _approvals(origin: Origin, by: str, approved_by: str | None) -> tuple[Approval, ...]:
    """Who answers for it. Raises ConfigurationError if they are fewer than the pipeline asks for."""
    names = tuple(dict.fromkeys(name.strip() for name in (by, approved_by or "") if name.strip()))
    if len(names) < origin.approvals:
        raise ConfigurationError(
            f"register.approvals of {origin.record.pipeline} is {origin.approvals}, and {len(names)} answers for this",
            remedy="give a second name that differs from the first: --approved-by NAME",
        )
    now = datetime.now(UTC)
    return tuple(Approval(name=name, at=now, how="ratchet promote") for name in names)


def _load(store: Store, origin: Origin, version: Version, folder: Path) -> None:
    """Load the model as evaluation did. Raises CorruptArtifact if it is not the one of the version's tags."""
    from ratchet.model.files import lay_out
    from ratchet.model.package import unpack
    from ratchet.model.scorer import PackedModel

    if "scoring" not in origin.evaluated.outputs:
        raise CorruptArtifact(
            "the evaluation of this version kept no scoring code", remedy="evaluate its night again with --rebuild"
        )
    package = unpack(read_bytes(store, origin.evaluated.outputs["scoring"]), folder / "scoring")
    loaded = PackedModel(package, lay_out(store, origin.trained, folder / "model", folder))
    if loaded.digest != version.digest:
        raise CorruptArtifact(
            f"the files of version {version.number} are model {loaded.digest[:12]}, and its tags name "
            f"{version.digest[:12]}",
            remedy="restore the files of its training from a backup, or promote another version",
        )
