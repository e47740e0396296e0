"""A trained model's files, from the store into the folder that `model.load` takes."""

import shutil
from pathlib import Path

from ratchet.contracts import bundle
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.result import Artifact, StageResult
from ratchet.model.description import CODE, DESCRIPTION, WEIGHTS
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store


def lay_out(store: Store, trained: StageResult, folder: Path, scratch: Path) -> Path:
    """Put a train result's outputs into `folder`, which must not exist: weights, description, the pipeline's code.

    Raises CorruptArtifact if one of them is gone or damaged.
    """
    (folder / CODE).mkdir(parents=True)
    for output, name in (("weights", WEIGHTS), ("description", DESCRIPTION)):
        shutil.copyfile(fetch(store, _named(trained, output), scratch), folder / name)
    packed = fetch(store, _named(trained, "code"), scratch).read_bytes()
    try:
        bundle.unpack(packed, folder / CODE)
    except ConfigurationError as error:
        raise CorruptArtifact(f"the code of a model: {error.cause}", remedy="train again with --rebuild") from error
    return folder


def _named(trained: StageResult, output: str) -> Artifact:
    try:
        return trained.outputs[output]
    except KeyError:
        raise CorruptArtifact(f"a train result has no {output}", remedy="train again with --rebuild") from None
