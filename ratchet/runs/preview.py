"""What a run would do: which stages are cached, which would be built and why, and about how long that takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path

from ratchet.contracts import summaries
from ratchet.contracts.champion import Champion
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import Outcome, RunPlan, SourceDay
from ratchet.contracts.snapshot_index import SnapshotIndex
from ratchet.contracts.stages import TRAININGS, Stage
from ratchet.production.baseline import baseline
from ratchet.runs.outcomes import newest_build, outcome_of, why_built
from ratchet.runs.planning import make_plan
from ratchet.runs.requests import compose, why_skipped
from ratchet.runs.work import why_again
from ratchet.runtime.further_days import planned_joins
from ratchet.runtime.held_days import read_index
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet.store.publishing import find_result


@dataclass(frozen=True, kw_only=True)
class StagePreview:
    """One stage of a previewed run. seconds, rows: of its newest build, None where there is none."""

    stage: Stage
    state: str
    because: str
    seconds: float | None
    rows: int | None


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a run would do.

    days: of the window. missing: those of them that have no data. new, changed: that ingest would read, for the first
    time or again. joined: that it would join again, as days of a further source changed. held: that it would take from
    the snapshot, as the source has them no more. seconds: of the stages that would be built, as far as `seconds` of a
    stage is known, None where it is known of none; unknown: the stages without it.
    """

    days: int
    missing: tuple[date, ...]
    new: tuple[date, ...]
    changed: tuple[date, ...]
    joined: tuple[date, ...]
    held: tuple[date, ...]
    source_bytes: int
    baseline: str
    promotion: str
    stages: tuple[StagePreview, ...]
    seconds: float | None
    unknown: tuple[Stage, ...]
    gpu_hours: float


def preview(
    *,
    folder: Path,
    spec: PipelineSpec,
    data_date: date,
    store_uri: str,
    tracking_uri: str | None,
    overrides: Mapping[str, str] | None = None,
) -> Preview:
    """Preview a run, and write nothing. Raises what planning raises."""
    store = open_store(store_uri)
    plan = make_plan(
        folder=folder,
        spec=spec,
        data_date=data_date,
        run_id="preview",
        kind="local",
        store_uri=store_uri,
        tracking_uri=tracking_uri,
        overrides=overrides,
        publish=False,
    )
    outcomes: dict[Stage, Outcome] = {}
    stages = tuple(_stages(store, plan, outcomes))
    measured = _baseline(store, plan, outcomes)
    index = read_index(store, spec)
    there = [day for day in plan.source if day.held is None and day.files]
    same = [day.day for day in there if index.unchanged(day, joined=_joined(index, day)) is not None]
    joins = planned_joins(store, spec, same, plan.joins)
    joined = tuple(day for day in same if joins[day] != index.days[day].joined)
    read = [day.day for day in there if day.day not in same]
    of_joins = [further.days for further in plan.joins.values()]
    built = [line for line in stages if line.state == "build"]
    seconds = {line.stage: line.seconds for line in built if line.seconds is not None}
    return Preview(
        days=len(plan.source),
        missing=tuple(day.day for day in plan.source if day.missing),
        new=tuple(day for day in read if day not in index.days),
        changed=tuple(day for day in read if day in index.days),
        joined=joined,
        held=tuple(day.day for day in plan.source if day.held is not None),
        source_bytes=sum(file.bytes for day in chain(plan.source, *of_joins) for file in day.files),
        baseline=f"{measured.model} version {measured.version}" if measured else "none yet",
        promotion=f"{plan.promotion.mode} {plan.promotion.reason}".strip(),
        stages=stages,
        seconds=sum(seconds.values()) if seconds or not built else None,
        unknown=tuple(line.stage for line in built if line.seconds is None),
        gpu_hours=sum(seconds.get(stage, 0.0) for stage in TRAININGS) / 3600 * spec.resources["train"].gpus,
    )


def _joined(index: SnapshotIndex, day: SourceDay) -> dict[str, str]:
    return index.days[day.day].joined if day.day in index.days else {}


def _baseline(store: Store, plan: RunPlan, outcomes: Mapping[Stage, Outcome]) -> Champion | None:
    """What evaluate would measure against. outcomes: of the stages whose results are stored."""
    trained = outcomes["train"].result if "train" in outcomes else None
    return baseline(
        store,
        plan.spec.model_name,
        data_date=plan.data_date,
        candidate=summaries.trained(trained).digest if trained else "",
        may_promote=plan.promotion.mode != "never",
    )


def _stages(store: Store, plan: RunPlan, outcomes: dict[Stage, Outcome]) -> list[StagePreview]:
    """Preview each stage. outcomes: gets those of the stages whose results are stored."""
    found: list[StagePreview] = []
    waits_for: Stage | None = None
    for stage in plan.spec.sequence:
        before = newest_build(store, plan.spec.name, stage)
        seconds = sum(before.result.timings.values()) if before else None
        rows = summaries.snapshot(before.result).rows if before and stage == "ingest" else None
        state, because = "build", f"it needs the new result of {waits_for}" if waits_for else ""
        if waits_for is None:
            if reason := why_skipped(plan.spec, stage, outcomes):
                state, because = "skip", reason
            else:
                request = compose(store, plan, stage, outcomes, "preview")
                ready = find_result(store, request.prefix)
                if ready and why_again(store, request, ready, outcomes):
                    because, waits_for = "production is not what its result left", stage
                elif ready:
                    state, because = "cached", "its result is stored"
                    outcomes[stage] = outcome_of(ready, cached=True, because=because)
                else:
                    because, waits_for = why_built(store, request), stage
        found.append(StagePreview(stage=stage, state=state, because=because, seconds=seconds, rows=rows))
    return found
