"""The runs of a pipeline by date: which there were, how they ended, and what data they saw."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.judgements import Interval
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import RunKind, RunPlan, SourceDay
from ratchet.runs.outcomes import outcome_of_stage, outcomes
from ratchet.runtime.held_days import table_of
from ratchet.store.base import Store
from ratchet.store.ledger import Record, champion_of, records

Standing = str
"""promote, reject or inconclusive; `failed` or `unfinished` where a run has no verdict."""


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """The run of a date, in one line. gain: relative, of the pipeline's metric. version: registered, if any.

    would_promote: whether the verdict is promote, even if the run was not allowed to move production. promoted: whether
    the ledger has a promotion of its model. live: whether its model is in production now. against: what it was measured
    against; empty for a constant scorer. chain: of a backfill that is judged along its own winners.
    """

    day: date
    run_id: str
    kind: RunKind
    standing: Standing
    gain: Interval | None
    would_promote: bool
    promoted: bool
    version: str
    cause: str
    cached: bool
    live: bool = False
    against: str = ""
    chain: str = ""


Ledgers = dict[str, tuple[Record, ...]]
"""Ledgers that were read, by model."""


def runs_of(store: Store, pipeline: str, day: date) -> list[str]:
    """Ids of the runs of a date, oldest first."""
    entries = sorted(store.list(paths.nights(pipeline, day)), key=lambda entry: entry.modified_ns)
    return [paths.last(entry.key) for entry in entries]


def days_of(store: Store, pipeline: str) -> list[date]:
    """The dates that have runs, oldest first."""
    return sorted({paths.night_date(entry.key) for entry in store.list(paths.nights(pipeline))})


def is_local(store: Store, pipeline: str, run_id: str) -> bool:
    """Whether `ratchet run` made a run, and no other orchestrator. False for an unknown run."""
    plan = plan_of(store, pipeline, run_id)
    return plan is not None and plan.kind == "local"


def plan_of(store: Store, pipeline: str, run_id: str) -> RunPlan | None:
    """The plan of a run, or None for an unknown run."""
    try:
        return RunPlan.model_validate_json(store.read(paths.plan(pipeline, run_id)))
    except FileNotFoundError:
        return None


def first_judged(store: Store, pipeline: str, day: date) -> RunPlan | None:
    """The plan of the first run of a date that came to a verdict, if there is one, on the pipeline's own data.

    What a run saw that failed before is no result to repeat: the cause may be data that has been delivered since.
    """
    for plan in _plans(store, pipeline, day):
        judged = outcomes(store, pipeline, plan.run_id).get("evaluate")
        if plan.reads_another_source:
            continue
        if judged is not None and judged.state == "done":
            return plan
    return None


def seen_days(store: Store, plan: RunPlan, spec: PipelineSpec) -> dict[date, SourceDay]:
    """The days of a run as it saw them: from its snapshot, if that is of the columns that the pipeline has now.

    A day that had no rows for it is missing then.
    """
    ingest = outcome_of_stage(store, plan.spec.name, plan.run_id, "ingest")
    snapshot = summaries.snapshot(ingest.result) if ingest is not None and ingest.result is not None else None
    if snapshot is None or snapshot.table != table_of(spec):
        return {each.day: each.model_copy(update={"held": None}) for each in plan.source}
    held = {day.day: day for day in snapshot.days}
    return {
        each.day: each.model_copy(update={"held": held[each.day]})
        if each.day in held
        else SourceDay(day=each.day, files=())
        for each in plan.source
    }


def newest(
    store: Store, pipeline: str, day: date, kind: RunKind | None = None, *, ledgers: Ledgers | None = None
) -> RunLine | None:
    """The newest run of a date, or the newest of a kind, in one line.

    ledgers: keeps what is read of them, for one who asks for many dates.
    """
    plans = [plan for plan in _plans(store, pipeline, day) if kind in {None, plan.kind}]
    return _line(store, plans[-1], {} if ledgers is None else ledgers) if plans else None


def _plans(store: Store, pipeline: str, day: date) -> Iterator[RunPlan]:
    for run_id in runs_of(store, pipeline, day):
        if (plan := plan_of(store, pipeline, run_id)) is not None:
            yield plan


def _ledger(store: Store, model: str, ledgers: Ledgers) -> tuple[Record, ...]:
    """The ledger of a model; empty if it cannot be read, since what cannot be checked is not in production."""
    if model not in ledgers:
        try:
            ledgers[model] = records(store, model)
        except CorruptArtifact:
            ledgers[model] = ()
    return ledgers[model]


def _line(store: Store, plan: RunPlan, ledgers: Ledgers) -> RunLine:
    ended = outcomes(store, plan.spec.name, plan.run_id)
    failed = [outcome for outcome in ended.values() if outcome.state == "failed"]
    evaluated, registered = ended.get("evaluate"), ended.get("register")
    judged = summaries.judgement(evaluated.result) if evaluated and evaluated.result else None
    made = summaries.registration(registered.result) if registered and registered.result else None
    ledger = _ledger(store, made.model, ledgers) if made else ()
    trained = ended["train"].result if "train" in ended else None
    digest = summaries.trained(trained).digest if trained else ""
    live = champion_of(ledger)
    standing = "failed" if failed else judged.verdict if judged else "unfinished"
    cause = f"{failed[0].stage}: {failed[0].because}" if failed else judged.explanation if judged else ""
    return RunLine(
        day=plan.data_date,
        run_id=plan.run_id,
        kind=plan.kind,
        standing=standing,
        gain=judged.gain if judged else None,
        would_promote=judged is not None and judged.verdict == "promote",
        promoted=any(record.action == "promote" and record.model_digest == digest for record in ledger),
        live=live is not None and live.model_digest == digest,
        version=made.version if made else "",
        cause=cause,
        against=judged.baseline.title if judged and judged.baseline else "",
        chain=plan.chain,
        cached=set(ended) == set(plan.spec.sequence)
        and all(one.cached for one in ended.values() if one.stage != "report"),
    )
