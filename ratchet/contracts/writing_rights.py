"""Which keys of the store a stage may write: the rights of its credentials, as patterns."""

from collections.abc import Mapping

from ratchet.contracts import paths
from ratchet.contracts.stages import Stage

SUM_PARTS: Mapping[Stage, str] = {"validate": "validate.sums", "features": "features.sums"}
"""The part under which a stage publishes sums of days; see ratchet.runtime.blocks."""


def writable_by(stage: Stage) -> tuple[str, ...]:
    """Patterns of the keys that a stage writes itself, where MLflow is a server. `*` is any text, with slashes too.

    The process that starts the stage writes all other keys: plans, outcomes, leases of stages, marks.

    A change here violates the promise of the project when a stage may write what another one has published.
    """
    return (f"published/*/{stage}/*", f"runs/*/{stage}-*", *(f"{place}/*" for place in _PLACES.get(stage, ())))


def _day_places(stage: Stage) -> tuple[str, str]:
    """Where a stage publishes the parts of days, and has the leases of those that it computes."""
    return f"published/*/{paths.day_part(stage)}", f"leases/*/{paths.day_part(stage)}"


_PLACES: Mapping[Stage, tuple[str, ...]] = {
    "ingest": (*_day_places("ingest"), "tables"),
    "validate": (*_day_places("validate"), f"published/*/{SUM_PARTS['validate']}"),
    "features": (*_day_places("features"), f"published/*/{SUM_PARTS['features']}"),
    "train": ("checkpoints",),
    "refit": ("checkpoints",),
    "register": ("ledger", "versions"),
}
"""What a stage writes beside its own result and the files that it keeps with the run."""
