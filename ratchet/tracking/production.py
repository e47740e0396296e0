"""Whether MLflow still has the bytes of the model that the ledger names as production."""

import shutil
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path
from typing import Any

from ratchet.contracts.refit import maker
from ratchet.contracts.result import Artifact
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store
from ratchet.store.ledger import Record
from ratchet.store.publishing import read_manifest
from ratchet.tracking.mlflow import Tracker

_NAMES = {"weights": "weights.safetensors", "description": "description.json"}
_TRAINED = "artifacts/trained"


def mend(tracker: Tracker, store: Store, live: Record, version: str, scratch: Path) -> list[str]:
    """Replace files of the version in production that are damaged; a line for each, with what to do.

    live: the ledger's record. version: the registry's number of it. Raises CorruptArtifact if the store's own files of
    that model are damaged.
    """
    return list(_mend(tracker, store, live, version, scratch))


def _mend(tracker: Tracker, store: Store, live: Record, number: str, scratch: Path) -> Iterator[str]:
    version = tracker.client.get_model_version(live.model, number)
    folder = f"{version.source.rpartition('/artifacts/')[2]}/{_TRAINED}"
    trained = read_manifest(store, maker(live.manifests)).result
    for output, name in _NAMES.items():
        artifact = trained.outputs[output]
        if _has(tracker.client, version.run_id, f"{folder}/{name}", artifact, scratch / f"registered-{output}"):
            continue
        whole = scratch / f"whole-{output}" / name
        whole.parent.mkdir(exist_ok=True)
        shutil.copyfile(fetch(store, artifact, scratch), whole)
        tracker.client.log_artifact(version.run_id, str(whole), folder)
        yield (
            f"MLflow's copy of {live.model} version {number} was damaged: {name}; the store's copy has replaced it; "
            "to do: load the model again where it is served, and check the disk of MLflow's artifacts"
        )


def _has(client: Any, run: str, path: str, artifact: Artifact, folder: Path) -> bool:
    """Whether a run's file has the bytes of an artifact. False if it is not there."""
    from mlflow.exceptions import MlflowException

    folder.mkdir(exist_ok=True)
    try:
        with Path(client.download_artifacts(run, path, str(folder))).open("rb") as file:
            return file_digest(file, "sha256").hexdigest() == artifact.sha256
    except FileNotFoundError:
        return False
    except MlflowException as error:
        if error.error_code not in {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "INTERNAL_ERROR"}:
            raise
        return False
