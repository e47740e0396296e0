"""A model that is or was in production registered again, where the registry has lost it and no backup has it.

Everything is in the store: the record of the version, its weights and the code that scores it. The ledger is left as it
is; it names the model by its digest, and the version by the number that it had.

A change here violates the promise of the project when what is registered is not, to the byte, what the ledger names.
"""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.refit import maker
from ratchet.contracts.version_record import VersionRecord
from ratchet.model.files import lay_out
from ratchet.model.package import unpack
from ratchet.model.packing import pack
from ratchet.production.by_hand import check_words
from ratchet.production.reconcile import reconcile
from ratchet.production.reconcile import version_of as registered
from ratchet.store.artifacts import read_bytes
from ratchet.store.base import Store
from ratchet.store.ledger import Record, records
from ratchet.store.publishing import read_manifest
from ratchet.store.version_records import find_record
from ratchet.tracking.candidates import log_candidate, training_tags
from ratchet.tracking.mlflow import Tracker, track
from ratchet.tracking.use_registry import use_registry
from ratchet.tracking.versions import version_of


def register_again(
    store: Store, tracking_uri: str | None, model: str, *, version: str | None = None, by: str, because: str
) -> str:
    """Make a version of a model that the ledger names, and let the alias follow the ledger; the version's number.

    version: of one that was in production, as the ledger numbers it; None: the one that is. Raises ConfigurationError
    where the registry has that model, or where the store has no record of its version; CorruptArtifact for files that
    are gone or damaged, and then nothing is registered.
    """
    check_words(by, because, flag="--register-again")
    record = _lost(store, tracking_uri, model, version)
    kept = find_record(store, model, record.version, record.model_digest)
    if kept is None:
        raise ConfigurationError(
            f"the store has no record of version {record.version} of {model}, which an earlier release made",
            remedy=f"restore MLflow's data, or `ratchet rollback {model}@VERSION` to one that the registry has",
        )
    with TemporaryDirectory(prefix="ratchet-") as folder:
        place = Path(folder)
        packed = _packed(store, record, kept, place)
        work = partial(_register, store, record, kept, packed, f"registered again by {by}: {because}")
        number = track(store, tracking_uri, place, work)
    reconcile(store, tracking_uri, model)
    return number


def _lost(store: Store, tracking_uri: str | None, model: str, version: str | None) -> Record:
    """The newest record of the model. Raises ConfigurationError if there is none, or if the registry has that model."""

    def refused(cause: object) -> ConfigurationError:
        return ConfigurationError(f"nothing is registered again: {cause}", remedy=f"see `ratchet doctor {model}`")

    found = reconcile(store, tracking_uri, model, look=True)
    if found.unchecked or (found.finding is not None and not found.shows("registry-behind")):
        raise refused(found.unchecked or found.finding)
    wanted = version or (found.live.version if found.live else "")
    reigns = [one for one in records(store, model) if one.moves_production and one.version == wanted]
    if not reigns:
        raise refused(
            f"no version {wanted} of {model} was ever in production" if wanted else f"{model} has no champion"
        )
    with TemporaryDirectory(prefix="ratchet-") as folder:
        if use_registry(store, tracking_uri, Path(folder), partial(registered, record=reigns[-1])) is not None:
            raise refused(f"the registry has the model of version {wanted} of {model}")
    return reigns[-1]


def _packed(store: Store, record: Record, kept: VersionRecord, place: Path) -> Path:
    """The folder of the version, from the store's own files, each read by its digest."""
    outputs = read_manifest(store, record.manifests["evaluate"]).result.outputs
    scoring = unpack(read_bytes(store, outputs["scoring"]), place / "scoring")
    trained = lay_out(store, read_manifest(store, maker(record.manifests)).result, place / "trained", place)
    pack(kept.spec, trained, scoring, place / "packed", pins=kept.pins, tags=_tags(kept))
    (place / "packed" / "record.json").write_text(kept.model_dump_json(by_alias=True), encoding="utf-8")
    return place / "packed"


def _register(store: Store, record: Record, kept: VersionRecord, packed: Path, said: str, tracker: Tracker) -> str:
    results = {stage: read_manifest(store, one.manifest).result for stage, one in kept.stages.items()}
    run = log_candidate(tracker, kept, results)

    def upload(run: str) -> str:
        tracker.client.log_artifacts(run, str(packed), f"model-{record.model_digest[:12]}")
        return f"{tracker.client.get_run(run).info.artifact_uri}/model-{record.model_digest[:12]}"

    return version_of(
        tracker,
        record.model,
        record.fingerprint,
        record.scoring,
        run=run,
        tags=_tags(kept),
        description=f"{kept.data_date}: {said}; {kept.judgement.explanation}"[:4000],
        upload=upload,
    )


def _tags(kept: VersionRecord) -> dict[str, str]:
    shipped = kept.refit or kept.trained
    return {**training_tags(kept, shipped), "ratchet.snapshot": f"{kept.snapshot.table}@{kept.snapshot.version}"}
