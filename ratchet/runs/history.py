"""The runs of a pipeline by date: which there were, how they ended, and what data they saw."""

from collections.abc import Iterator
from datetime import date
from zoneinfo import ZoneInfo

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, OtherRelease
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import RunPlan, SourceDay
from ratchet.runs.outcomes import outcome_of_stage, outcomes
from ratchet.runs.past_rows import are_there
from ratchet.runtime.held_days import table_of
from ratchet.store.base import Entry, Store
from ratchet.store.documents import read_document
from ratchet.store.removals import in_its_place, removals, successors


def runs_of(store: Store, pipeline: str, day: date) -> list[str]:
    """Ids of the runs of a date, in the order in which they were planned; one whose plan is gone comes first.

    Not by the times of files: a store that was copied has others, and S3 counts whole seconds.
    """
    entries = sorted(store.list(paths.nights(pipeline, day)), key=lambda entry: entry.modified_ns)
    if len(entries) > 1:
        entries.sort(key=lambda entry: _planned_s(store, pipeline, entry))
    return [paths.last(entry.key) for entry in entries]


def _planned_s(store: Store, pipeline: str, mark: Entry) -> float:
    """When a run was planned, by its mark. One whose plan cannot be read holds up no other run of the date."""
    try:
        plan = plan_of(store, pipeline, paths.last(mark.key))
    except (CorruptArtifact, OtherRelease):
        return mark.modified_ns / 1e9
    return plan.created.timestamp() if plan is not None else 0.0


def days_of(store: Store, pipeline: str) -> list[date]:
    """The dates that have runs, oldest first."""
    return sorted({paths.night_date(entry.key) for entry in store.list(paths.nights(pipeline))})


def is_local(store: Store, pipeline: str, run_id: str) -> bool:
    """Whether `ratchet run` made a run, and no other orchestrator. False for an unknown run, and an unreadable plan."""
    try:
        plan = plan_of(store, pipeline, run_id)
    except (CorruptArtifact, OtherRelease):
        return False
    return plan is not None and plan.kind == "local"


def plan_of(store: Store, pipeline: str, run_id: str) -> RunPlan | None:
    """The plan of a run, or None for an unknown run."""
    try:
        return read_document(store, paths.plan(pipeline, run_id), RunPlan)
    except FileNotFoundError:
        return None


def plan_to_follow(store: Store, pipeline: str, run_id: str) -> RunPlan | None:
    """The plan of a run, or of a rebuild of a version: of whatever has containers. None for an unknown one."""
    if (found := plan_of(store, pipeline, run_id)) is not None:
        return found
    try:
        return read_document(store, rebuild_plan(pipeline, run_id), RunPlan)
    except FileNotFoundError:
        return None


def rebuild_plan(pipeline: str, run_id: str) -> str:
    """The key of what a rebuild of a version set out to do. It is no plan of a run: a rebuild is no run of its date."""
    return paths.kept(pipeline, run_id, paths.REPRODUCTION, paths.last(paths.plan(pipeline, run_id)))


def report_of(pipeline: str, run_id: str) -> str:
    """The key of what a rebuild of a version has found."""
    return paths.kept(pipeline, run_id, paths.REPRODUCTION, "report.json")


def is_planned(store: Store, pipeline: str, run_id: str) -> bool:
    """Whether a run has a plan, readable or not. False for what is no name of a run."""
    try:
        key = paths.plan(pipeline, run_id)
    except ConfigurationError:
        return False
    return store.head(key) is not None


def first_judged(store: Store, pipeline: str, day: date) -> RunPlan | None:
    """The plan of the run that a date was first judged by, if there is one, on the pipeline's own data.

    That is its own night: the first scheduled run that came to a verdict; without one, the first other run that was
    planned when the date was over. Until then a run sees a part of the day. What a run saw that failed before is no
    result to repeat: the cause may be data that has been delivered since. Nor is a run to repeat whose results were
    collected, and with them rows that it saw.
    """
    judged = (
        plan
        for plan in sorted(_plans(store, pipeline, day), key=lambda plan: plan.kind != "scheduled")
        if not plan.reads_another_source and (plan.kind == "scheduled" or _is_over(day, plan))
    )
    for plan in judged:
        evaluated = outcomes(store, pipeline, plan.run_id).get("evaluate")
        if evaluated is not None and evaluated.state == "done":
            return plan if _has_its_rows(store, plan) else None
    return None


def _has_its_rows(store: Store, plan: RunPlan) -> bool:
    """Whether what a run saw is there. Rows that are lost although the run stays whole are for ingest to report."""
    pipeline = plan.spec.name
    ingest = outcome_of_stage(store, pipeline, plan.run_id, "ingest")
    if ingest is None or ingest.result is None or not ingest.manifest or store.head(ingest.manifest) is not None:
        return True
    snapshot = summaries.snapshot(ingest.result)
    return are_there(store, pipeline, snapshot.table, snapshot.days)


def _is_over(day: date, plan: RunPlan) -> bool:
    """Whether a day of the pipeline had ended when a run was planned."""
    zone = ZoneInfo(plan.spec.schedule.timezone if plan.spec.schedule else "UTC")
    return plan.created.astimezone(zone).date() > day


def seen_days(store: Store, plan: RunPlan, spec: PipelineSpec) -> dict[date, SourceDay]:
    """The days of a run as it saw them: from its snapshot, if that is of the columns that the pipeline has now.

    Rows that were purged since are not in them. A day that had no rows for it is missing then.
    """
    ingest = outcome_of_stage(store, plan.spec.name, plan.run_id, "ingest")
    snapshot = summaries.snapshot(ingest.result) if ingest is not None and ingest.result is not None else None
    if snapshot is None or snapshot.table != table_of(spec):
        return {each.day: each.model_copy(update={"held": None}) for each in plan.source}
    known = successors(removals(store, plan.spec.name))
    held = {day.day: in_its_place(day, known) for day in snapshot.days}
    return {
        each.day: each.model_copy(update={"held": held[each.day]})
        if each.day in held
        else SourceDay(day=each.day, files=())
        for each in plan.source
    }


def _plans(store: Store, pipeline: str, day: date) -> Iterator[RunPlan]:
    for run_id in runs_of(store, pipeline, day):
        if (plan := plan_of(store, pipeline, run_id)) is not None:
            yield plan
