"""Versions and aliases in MLflow's registry."""

from collections.abc import Callable, Mapping

from ratchet.contracts.errors import ConfigurationError
from ratchet.tracking.mlflow import Tracker
from ratchet.tracking.production import CHAMPION, LEDGER

FINGERPRINT = "ratchet.fingerprint"
SCORING = "ratchet.scoring"
_NOT_THERE = frozenset({"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"})


def version_of(
    tracker: Tracker,
    model: str,
    fingerprint: str,
    scoring: str,
    *,
    run: str,
    tags: Mapping[str, str],
    description: str,
    upload: Callable[[str], str],
) -> str:
    """The version of a training and the code that scores it, made if it is not there. However many ask, there is one.

    fingerprint: the training's. scoring: the name of the package; a training that was evaluated again by other code is
    another version, for a version is served as it was evaluated.
    upload: puts the model's files into the run and returns their URI; called only if they are needed. Of two that made
    one at the same moment, the older stays, and each takes away only what it made itself.
    """
    identity = {FINGERPRINT: fingerprint, SCORING: scoring}
    found = _versions(tracker, model, identity)
    if found:
        return found[0]
    source = upload(run)
    _ensure(tracker, model)
    made = tracker.client.create_model_version(
        model, source, run_id=run, tags={**identity, **tags}, description=description
    ).version
    first = _versions(tracker, model, identity)[0]
    if str(made) != first:
        tracker.client.delete_model_version(model, str(made))
    return first


def point(tracker: Tracker, model: str, version: str, number: int) -> bool:
    """Let the alias name a version; whether it did not do so before. Raises ConfigurationError if there is none such.

    number: of the ledger's record that put it into production; a tag of the version has it.
    """
    from mlflow.exceptions import MlflowException

    try:
        if str(tracker.client.get_model_version_by_alias(model, CHAMPION).version) == version:
            return False
    except MlflowException as error:
        if error.error_code not in _NOT_THERE:
            raise
    try:
        tracker.client.set_model_version_tag(model, version, LEDGER, str(number))
        tracker.client.set_registered_model_alias(model, CHAMPION, version)
    except MlflowException as error:
        if error.error_code not in _NOT_THERE:
            raise
        raise ConfigurationError(
            f"MLflow at {tracker.address} has no version {version} of {model}, which the ledger names as {CHAMPION}",
            remedy="restore MLflow's data, or see that the tracking URI is the one that the ledger was written with",
        ) from error
    return True


def _versions(tracker: Tracker, model: str, identity: Mapping[str, str]) -> list[str]:
    tags = "".join(f" and tags.`{name}` = '{value}'" for name, value in identity.items())
    found = tracker.client.search_model_versions(f"name = '{model}'{tags}")
    return sorted((str(version.version) for version in found), key=int)


def _ensure(tracker: Tracker, model: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        tracker.client.create_registered_model(model)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
