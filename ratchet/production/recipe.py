"""What a model was trained from: a rebuild of the same training has the same recipe, whatever its digest is."""

from collections.abc import Mapping

from ratchet.contracts.fingerprint import digest_of

_NOT_OF_THE_MODEL = ("rebuild", "accumulation", "config.resources.")
"""The parts of a training's fingerprint that say how it was computed, and not what."""


def recipe(parts: Mapping[str, str]) -> str:
    """The digest of a training's data, code, settings and libraries. parts: those of its fingerprint."""
    return digest_of({name: value for name, value in parts.items() if not name.startswith(_NOT_OF_THE_MODEL)})
