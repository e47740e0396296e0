"""The line of one run, from its mark, its plan and its outcomes."""

from datetime import UTC, datetime
from typing import Any

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact, OtherRelease, RatchetError
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.run_index import IndexedRun, planned
from ratchet.contracts.stages import STAGES
from ratchet.runs.history import plan_of
from ratchet.runs.run_state import read_run
from ratchet.store.base import Entry, Store

AGAIN = "again"
"""In the place of the records that a line is from, while a stage is recorded again; with those that were seen then."""


def line_of_mark(store: Store, pipeline: str, mark: Entry) -> IndexedRun | None:
    """The line of a run by its mark and its plan; None where the plan is gone, or was never written."""
    run_id = paths.last(mark.key)
    try:
        plan = plan_of(store, pipeline, run_id)
    except (CorruptArtifact, OtherRelease) as error:  # one date that cannot be read is no reason to show none
        created = datetime.fromtimestamp(mark.modified_ns / 1e9, UTC)
        day = paths.night_date(mark.key)
        return IndexedRun(day=day, run_id=run_id, kind="manual", created=created, **_unreadable(error))
    return planned(plan) if plan is not None else None


def line_now(store: Store, pipeline: str, run: IndexedRun) -> IndexedRun:
    """The line of a run from its records as they are now."""
    try:
        return line_on_record(store, pipeline, run)
    except OtherRelease as error:
        return run.model_copy(update=_unreadable(error))


def noted_line(store: Store, pipeline: str, run: IndexedRun) -> IndexedRun:
    """The same, with the records that it is from: one that is written meanwhile makes it a line of before.

    run: its line if no stage of it has ended.
    """
    found = _records(store, pipeline, run.run_id)
    is_new = [key for key, _ in found] == [paths.plan(pipeline, run.run_id)]
    line = run if is_new else line_now(store, pipeline, run)
    return line if line.ended else line.model_copy(update={"noted": digest_of(found)})


def renewed_line(store: Store, pipeline: str, run: IndexedRun) -> IndexedRun:
    """The same of a run under way, for who does not record its stages. The line itself where its records are as before.

    Of a run of which a stage is recorded again, the records have to be the same in two looks: else the verdict of
    before would be written between the line without one and the record.
    """
    if run.noted.startswith(AGAIN):
        seen = f"{AGAIN} {digest_of(_records(store, pipeline, run.run_id))}"
        if run.noted != seen:
            return run.model_copy(update={"noted": seen})
    elif is_as_recorded(store, pipeline, run):
        return run
    return noted_line(store, pipeline, run.model_copy(update={"noted": ""}))


def is_as_recorded(store: Store, pipeline: str, run: IndexedRun) -> bool:
    """Whether the line of a run under way is from its records as they are now. One request, or none."""
    return run.noted != "" and run.noted == digest_of(_records(store, pipeline, run.run_id))


def _records(store: Store, pipeline: str, run_id: str) -> list[tuple[str, str]]:
    """The keys and etags of the records that the line of a run is from: its plan, its outcomes, a person's answers."""
    outcomes = (paths.outcome(pipeline, run_id, stage) for stage in STAGES)
    named = {paths.plan(pipeline, run_id), *outcomes}
    answers = paths.answer(pipeline, run_id, 1).removesuffix("1.json")
    listed = store.list(paths.run(pipeline, run_id))
    return sorted((one.key, one.etag) for one in listed if one.key in named or one.key.startswith(answers))


def line_on_record(store: Store, pipeline: str, run: IndexedRun) -> IndexedRun:
    """The same. Raises OtherRelease."""
    try:
        plan = plan_of(store, pipeline, run.run_id)
        return read_run(store, plan) if plan is not None else run
    except CorruptArtifact as error:
        return run.model_copy(update=_unreadable(error))


def _unreadable(error: RatchetError) -> dict[str, Any]:
    return {"standing": "failed", "cause": str(error)}
