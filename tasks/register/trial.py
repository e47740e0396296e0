"""The packed model, loaded as a service loads a version, and asked for rows whose scores evaluate has published.

A change here violates the promise of the project when a version is made that does not give the scores that the verdict
was about.
"""

from pathlib import Path

import numpy as np

from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.result import StageResult
from ratchet.model.arrays import read_array
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store


def try_packed(store: Store, evaluated: StageResult, packed: Path, scratch: Path) -> None:
    """Raise CorruptArtifact if the packed model gives another score than evaluate measured. packed: its MLflow folder.

    It runs in a process of its own.
    """
    from ratchet.model.process import ModelProcess, read_written

    if not {"asked", "answers"} <= evaluated.outputs.keys():
        raise CorruptArtifact(
            "an evaluate result has no rows to try the packed model with", remedy="evaluate again with --rebuild"
        )
    rows = read_written(fetch(store, evaluated.outputs["asked"], scratch))
    expected = read_array(store, evaluated.outputs["answers"], scratch)
    with ModelProcess(packed, packed, scratch) as served:
        found = served.score(rows)
    if found.shape == expected.shape and np.array_equal(found, expected, equal_nan=True):
        return
    different = found.shape != expected.shape or ~np.isclose(found, expected, rtol=0, atol=0, equal_nan=True)
    place = int(np.argwhere(np.atleast_1d(different))[0][0])
    raise CorruptArtifact(
        f"the packed model gives row {place} of {len(expected)} the score {found[place]}, and evaluate measured"
        f" {expected[place]}; no version was made",
        remedy="evaluate again with --rebuild; if the scores still differ, report it with the log of register",
    )
