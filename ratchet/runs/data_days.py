"""The days of a pipeline's data: the state of each, its rows, and the versions of the model that trained on them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

from ratchet.contracts import paths
from ratchet.contracts.day_record import DayRecord, DayStates
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.removal import Removal
from ratchet.contracts.request import RunPlan
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.runs.day_records import day_states, refuse
from ratchet.runs.history import plan_of
from ratchet.runs.lost_versions import learnt_days
from ratchet.runs.run_index import newest_runs
from ratchet.runtime.held_days import read_index
from ratchet.store.base import Store
from ratchet.store.removals import expired, removals
from ratchet.store.version_records import read_record, versions

State = Literal["arrived", "accepted", "refused", "let in", "expired"]
"""arrived: no run of this date has checked these rows; windows take them. refused: windows leave the day out. expired:
the rows are not kept any more."""


@dataclass(frozen=True, kw_only=True)
class DataDay:
    """A day. version: how the digest of its file begins.

    models: the versions of the model that trained on these rows. before: those that trained on other rows of the day.
    why: why it was refused, or let in. by: the person who refused it, or let it in; empty where its own run refused it.
    """

    day: date
    state: State
    rows: int
    version: str
    models: tuple[str, ...]
    before: tuple[str, ...]
    why: str
    by: str


def data_days(store: Store, pipeline: str) -> list[DataDay]:
    """The days that the snapshot of a pipeline holds, oldest first. Raises ConfigurationError for an unknown name."""
    plan = newest_plan(store, pipeline)
    held = _held(store, plan)
    states = day_states(store, pipeline, held)
    trained = _trained(store, plan.spec.model_name)
    gone = {day: why for day, why in expired(removals(store, pipeline)).items() if day not in held}
    return [
        _expired(day, gone[day], trained.get(day, {})) if day in gone else _day(held[day], states, trained.get(day, {}))
        for day in sorted({*held, *gone})
    ]


def refuse_day(store: Store, pipeline: str, day: date, *, by: str, because: str) -> DayRecord:
    """Refuse the rows of a day. Raises ConfigurationError for a day that the snapshot does not hold."""
    held = _held(store, newest_plan(store, pipeline))
    if day not in held:
        spans = f"{min(held)} to {max(held)}" if held else "none"
        raise ConfigurationError(
            f"{pipeline}: the snapshot has no day {day}; it has {spans}",
            remedy="check the date; a day that no run has read needs no refusal",
        )
    return refuse(store, pipeline, day, held[day].source, by=by, because=because)


def _held(store: Store, plan: RunPlan) -> dict[date, SnapshotDay]:
    return {day: one.day for day, one in read_index(store, plan.spec).days.items()}


def newest_plan(store: Store, pipeline: str) -> RunPlan:
    """The plan of the newest run on the pipeline's own data. Raises ConfigurationError where there is none."""
    found = next((plan for plan in plans(store, pipeline) if not _is_trial(plan)), None)
    if found is None:
        raise ConfigurationError(
            f"no run of {pipeline!r} in {store.uri}", remedy="check --store and the name of the pipeline"
        )
    return found


def plans(store: Store, pipeline: str) -> Iterator[RunPlan]:
    """The plans of all runs of a pipeline, the one that was made last first."""
    found = (plan_of(store, pipeline, run.run_id) for run in newest_runs(store, pipeline))
    return (plan for plan in found if plan is not None)


def _is_trial(plan: RunPlan) -> bool:
    """Whether a person gave the run other data, or other columns, than the file has."""
    return plan.reads_another_source or any(key.partition(".")[0] == "columns" for key in plan.overrides)


def _trained(store: Store, model: str) -> dict[date, dict[str, list[str]]]:
    """By day and digest of its file, the versions that trained on it."""
    found: dict[date, dict[str, list[str]]] = {}
    for version in versions(store, model):
        record = read_record(store, model, version)
        used = learnt_days(record)
        for day in record.snapshot.days:
            if day.day in used:
                found.setdefault(day.day, {}).setdefault(day.file.sha256, []).append(version)
    return found


def _day(held: SnapshotDay, states: DayStates, trained: Mapping[str, list[str]]) -> DataDay:
    record, state = _state(held, states)
    others = [version for sha, made in trained.items() if sha != held.file.sha256 for version in made]
    return DataDay(
        day=held.day,
        state=state,
        rows=held.file.rows or 0,
        version=held.file.sha256[:12],
        models=tuple(trained.get(held.file.sha256, ())),
        before=tuple(others),
        why=record.reason if record else "",
        by=record.by if record else "",
    )


def _expired(day: date, removal: Removal, trained: Mapping[str, list[str]]) -> DataDay:
    versions = [(one.before, one.rows) for one in removal.days if one.day == day]
    return DataDay(
        day=day,
        state="expired",
        rows=versions[-1][1],
        version=versions[-1][0][:12],
        models=(),
        before=tuple(version for made in trained.values() for version in made),
        why=removal.line,
        by="",
    )


def _state(held: SnapshotDay, states: DayStates) -> tuple[DayRecord | None, State]:
    """What the newest records say of just these rows; a refusal counts until a run of the date passes."""
    refused = next((one for one in states.refused if one.day == held.day), None)
    if refused is not None:
        admitted = next((one for one in states.admitted if (one.day, one.source) == (held.day, held.source)), None)
        return (admitted, "let in") if admitted else (refused, "refused")
    before = next((one for one in states.before if (one.day, one.source) == (held.day, held.source)), None)
    if before is not None:
        return before, "refused"
    return None, "accepted" if states.accepted.get(held.day) == paths.short(held.source) else "arrived"
