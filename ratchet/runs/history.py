"""The nights of a pipeline by date: which runs there were, how they ended, and what data they saw."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from ratchet.contracts import paths, summaries
from ratchet.contracts.request import RunKind, RunPlan, SourceDay
from ratchet.contracts.stages import STAGES
from ratchet.contracts.summaries import Interval
from ratchet.runs.outcomes import outcomes
from ratchet.store.base import Store

Standing = str
"""promote, reject or inconclusive; `failed` or `unfinished` where a run has no verdict."""


@dataclass(frozen=True, kw_only=True)
class NightLine:
    """One date of a summary. gain: relative, of the pipeline's metric. version: registered, if any.

    would_promote: whether the verdict would have moved production, had the run been allowed to.
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


def runs_of(store: Store, pipeline: str, day: date) -> list[str]:
    """Ids of the runs of a date, oldest first."""
    entries = sorted(store.list(paths.nights(pipeline, day)), key=lambda entry: entry.modified_ns)
    return [entry.key.rpartition("/")[2] for entry in entries]


def days_of(store: Store, pipeline: str) -> list[date]:
    """Dates that there were runs of."""
    return sorted({date.fromisoformat(entry.key.split("/")[2]) for entry in store.list(paths.nights(pipeline))})


def is_local(store: Store, pipeline: str, run_id: str) -> bool:
    """Whether a run is one of `ratchet run`, with no other orchestrator behind it. Unknown runs are not."""
    plan = plan_of(store, pipeline, run_id)
    return plan is not None and plan.kind == "local"


def plan_of(store: Store, pipeline: str, run_id: str) -> RunPlan | None:
    """What a run set out to do, if it is known."""
    try:
        return RunPlan.model_validate_json(store.read(paths.plan(pipeline, run_id)))
    except FileNotFoundError:
        return None


def seen_then(store: Store, pipeline: str, day: date) -> dict[date, SourceDay]:
    """The source as the first run of a date saw it that got through validation; nothing if there was none."""
    for plan in _plans(store, pipeline, day):
        validated = outcomes(store, pipeline, plan.run_id).get("validate")
        if validated is not None and validated.state == "done":
            return {each.day: each for each in plan.source}
    return {}


def newest(store: Store, pipeline: str, day: date, kind: RunKind | None = None) -> NightLine | None:
    """How the newest run of a date, or the newest of a kind, ended."""
    plans = [plan for plan in _plans(store, pipeline, day) if kind in {None, plan.kind}]
    return _line(store, plans[-1]) if plans else None


def _plans(store: Store, pipeline: str, day: date) -> Iterator[RunPlan]:
    for run_id in runs_of(store, pipeline, day):
        if (plan := plan_of(store, pipeline, run_id)) is not None:
            yield plan


def _line(store: Store, plan: RunPlan) -> NightLine:
    ended = outcomes(store, plan.spec.name, plan.run_id)
    failed = [outcome for outcome in ended.values() if outcome.state == "failed"]
    evaluated, registered = ended.get("evaluate"), ended.get("register")
    judged = summaries.judgement(evaluated.result) if evaluated and evaluated.result else None
    made = summaries.registration(registered.result) if registered and registered.result else None
    standing = "failed" if failed else judged.verdict if judged else "unfinished"
    cause = f"{failed[0].stage}: {failed[0].because}" if failed else judged.explanation if judged else ""
    return NightLine(
        day=plan.data_date,
        run_id=plan.run_id,
        kind=plan.kind,
        standing=standing,
        gain=judged.gain if judged else None,
        would_promote=judged is not None and judged.verdict == "promote",
        promoted=made is not None and made.promoted,
        version=made.version if made else "",
        cause=cause,
        cached=len(ended) == len(STAGES) and all(one.cached for one in ended.values() if one.stage != "report"),
    )
