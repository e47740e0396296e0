"""Which trainings may go on from each other's checkpoints: those with one resume key."""

from collections.abc import Mapping
from datetime import date

from ratchet.contracts.document import Document
from ratchet.contracts.fingerprint import digest_of

_NOT_OF_THE_MATHEMATICS = (
    "accumulation",
    "config.train.accumulation",
    "config.resources.",
    "config.train.checkpoint.",
    "config.train.profile",
    "config.train.recompute",
    "config.train.shards",
    "config.train.tables",
    "config.train.watchdog",
)
"""The parts of a training's fingerprint that say how and where it is computed, and not what."""


def resume_key(parts: Mapping[str, str]) -> str:
    """The digest of what a training computes: data, code, settings, libraries. parts: those of its fingerprint.

    A change here violates the promise of the project when a training goes on from one of other mathematics, or when a
    retry with other resources begins with step 0.
    """
    return digest_of(mathematics(parts))


def mathematics(parts: Mapping[str, str]) -> dict[str, str]:
    """Those parts of a training's fingerprint that its resume key has."""
    return {name: value for name, value in parts.items() if not name.startswith(_NOT_OF_THE_MATHEMATICS)}


class CheckpointOrigin(Document):
    """The training that wrote a folder of checkpoints. Stored beside them, as `origin.json`."""

    run_id: str
    data_date: date
    parts: dict[str, str]
