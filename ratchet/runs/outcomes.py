"""How the recorded stages of a run ended, and what was built last."""

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, OtherRelease
from ratchet.contracts.fingerprint import differences
from ratchet.contracts.request import Outcome, StageRequest
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import STAGES, Stage
from ratchet.runs.newest import newest_first
from ratchet.store.base import Entry, Store
from ratchet.store.documents import read_document
from ratchet.store.publishing import find_result

_SHOWN = 4


def outcomes(store: Store, pipeline: str, run_id: str) -> dict[Stage, Outcome]:
    """How the stages of a run ended so far."""
    found = {stage: outcome_of_stage(store, pipeline, run_id, stage) for stage in STAGES}
    return {stage: outcome for stage, outcome in found.items() if outcome is not None}


def outcome_of_stage(store: Store, pipeline: str, run_id: str, stage: Stage) -> Outcome | None:
    """How a stage of a run ended, or None if it has not."""
    try:
        return read_document(store, paths.outcome(pipeline, run_id, stage), Outcome)
    except FileNotFoundError:
        return None


def outcome_of(found: PublishedResult, *, cached: bool, because: str) -> Outcome:
    """The outcome of a stage that has a published result."""
    return Outcome(
        stage=found.result.stage,
        state="done",
        cached=cached,
        manifest=found.key,
        content=found.result.content,
        because=because,
        result=found.result,
    )


def newest_build(store: Store, pipeline: str, stage: Stage) -> PublishedResult | None:
    """The newest result of a stage that is there, by any run."""

    def result_of(mark: Entry) -> PublishedResult | None:
        try:
            return find_result(store, paths.published(pipeline, stage, paths.last(mark.key)))
        except (CorruptArtifact, OtherRelease):  # it explains nothing
            return None

    marks = store.list(paths.builds(pipeline, stage))
    return next(newest_first(marks, result_of, lambda found: found.result.finished), None)


def why_built(store: Store, request: StageRequest) -> str:
    """What differs from the newest result of this stage, in one line."""
    before = newest_build(store, request.spec.name, request.stage)
    if before is None:
        return "no result is stored yet"
    changes = differences(before.result.parts, request.parts)
    shown = "; ".join(changes[:_SHOWN])
    return f"{shown}; and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else shown or "its result is gone"
