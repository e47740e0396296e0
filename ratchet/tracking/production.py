"""Whether MLflow still has what the ledger names as production: the alias, and the bytes of the registered weights.

The ledger is a chain of files, so a loss of its newest record cannot be seen in it. The registry can still know better.
"""

import shutil
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path
from typing import Any

from ratchet.contracts import paths
from ratchet.contracts.refit import maker
from ratchet.contracts.result import Artifact
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store
from ratchet.store.ledger import Record
from ratchet.store.publishing import read_manifest
from ratchet.tracking.mlflow import Tracker

CHAMPION = "champion"
"""The alias of the version in production."""
LEDGER = "ratchet.ledger"
"""The tag of a version with the number of the ledger's record that last put it into production."""
_NAMES = {"weights": "weights.safetensors", "description": "description.json"}
_TRAINED = "artifacts/trained"


def check(tracker: Tracker, store: Store, model: str, live: Record | None, scratch: Path) -> list[str]:
    """What is wrong, a line each with what to do. Files of the version in production that are damaged are mended.

    live: the newest record of the ledger. Raises CorruptArtifact if the store's own files of that model are damaged.
    """
    named_by_alias = _by_alias(tracker, model)
    alias = str(named_by_alias.version) if named_by_alias else None
    if alias is not None and (live is None or alias != live.version):
        due = paths.ledger_record(model, live.number + 1 if live else 1)
        named = f"in its newest record ({live.number}) version {live.version}" if live else "no version"
        remedy = (
            f"if {due} is lost, restore it from a backup before the next promotion; "
            "otherwise set the alias to what the ledger names"
        )
        said = f"MLflow's alias {CHAMPION} of {model} names version {alias}, and the ledger names {named}"
        return [f"{said}; to do: {remedy}"]
    return list(_mend(tracker, store, model, live, scratch)) if live and alias is not None else []


def newest_number(tracker: Tracker, model: str) -> int:
    """The number of the ledger's record that MLflow's alias follows; 0 where there is no alias or no number.

    Read it before the ledger, which is written first: then the ledger has no smaller one, unless records are lost.
    """
    version = _by_alias(tracker, model)
    number = version.tags.get(LEDGER, "") if version else ""
    return int(number) if number.isdecimal() else 0


def _by_alias(tracker: Tracker, model: str) -> Any:
    """The version that the alias names, or None."""
    from mlflow.exceptions import MlflowException

    try:
        return tracker.client.get_model_version_by_alias(model, CHAMPION)
    except MlflowException as error:
        if error.error_code not in {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}:
            raise
        return None


def _mend(tracker: Tracker, store: Store, model: str, live: Record, scratch: Path) -> Iterator[str]:
    version = tracker.client.get_model_version(model, live.version)
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
            f"MLflow's copy of {model} version {live.version} was damaged: {name}; the store's copy has replaced it; "
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
