"""Versions in MLflow's registry."""

from collections.abc import Callable, Mapping

from ratchet.tracking.mlflow import Tracker
from ratchet.tracking.registry import DIGEST, FINGERPRINT, SCORING


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
    """The version of a model and the code that scores it, made if it is not there. However many ask, there is one.

    So has a model that was trained again and is the same to the bit. fingerprint: the training's. tags: with the
    model's digest. scoring: the name of the package; a model that was evaluated again by other code is another version,
    for a version is served as it was evaluated.
    upload: puts the model's files into the run and returns their URI; called only if they are needed. Of two that made
    one at the same moment, the older stays, and each takes away only what it made itself.
    """
    identity = {DIGEST: tags[DIGEST], SCORING: scoring}
    found = _versions(tracker, model, identity)
    if found:
        return found[0]
    source = upload(run)
    _ensure(tracker, model)
    made = tracker.client.create_model_version(
        model, source, run_id=run, tags={FINGERPRINT: fingerprint, **identity, **tags}, description=description
    ).version
    first = _versions(tracker, model, identity)[0]
    if str(made) != first:
        tracker.client.delete_model_version(model, str(made))
    return first


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
