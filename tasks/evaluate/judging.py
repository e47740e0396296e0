"""Candidate against baseline on the scores that both gave the same rows: figures, slices, guard rails, obstacles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from ratchet.contracts.gate import lower_is_better
from ratchet.contracts.judgements import GuardJudgement, Interval, SliceJudgement
from ratchet.contracts.made_columns import made_columns
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Judgement
from ratchet.metrics import metrics
from ratchet.metrics.metrics import Floats, Measurement
from ratchet.model.derivation import load_derive
from ratchet.model.holdout import Holdout
from ratchet.model.own_metric import PipelineMetrics
from ratchet.verdict.comparison import Comparison
from ratchet.verdict.guards import judge_floor, judge_latency, judge_metric, judge_size, judge_slices
from ratchet.verdict.levels import compare_at
from ratchet.verdict.rules import Case, rule
from ratchet.verdict.slices import compare_slices
from tasks.evaluate.baseline import Baseline
from tasks.evaluate.night import Costs, Night
from tasks.evaluate.obstacles import (
    STUCK,
    baseline_obstacle,
    candidate_obstacle,
    is_sound,
    no_authority,
    parent_obstacle,
    rescue,
    value_obstacle,
)

_DAY = 86_400
Measured = Mapping[str, Measurement]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rival:
    """What the candidate is compared with. by_metric: its scores for each metric; table: its measurements."""

    kind: Literal["champion", "constant", "popularity"]
    words: str
    by_metric: Mapping[str, Floats]
    table: Measured


def judge(
    spec: PipelineSpec, held: Holdout, candidate: Floats, baseline: Baseline | None, night: Night, folder: Path
) -> tuple[Judgement, dict[str, float]]:
    """The judgement on scores of the same rows, and a constant scorer's metrics beside it. folder: the pipeline's."""
    unreadable = candidate_obstacle(candidate)
    measures = PipelineMetrics(spec, folder)
    shown = _names(spec)
    ours: Measured = {} if unreadable else _values(measures, held, dict.fromkeys(shown, candidate))
    constant = _constant(spec, measures, held, shown)
    rivals = list(_rivals(measures, held, candidate, baseline, night, constant, spec.name))
    rival, compared = _hardest(spec, ours, rivals, night)
    stale = _stale_days(spec, baseline, night)
    slices = _slices(spec, measures, held, candidate, rival, folder) if compared else ()
    case = Case(
        metric=spec.metric,
        candidate=ours[spec.metric].value if spec.metric in ours else 0.0,
        baseline=rival.table[spec.metric].value if spec.metric in rival.table else 0.0,
        comparison=compared or _nothing(spec, night),
        slices=slices,
        margin=spec.gate.min_gain if stale is None else -spec.gate.max_stale_loss,
        units="groups" if held.rows.offsets is not None else "rows",
        against=rival.words,
        first=baseline is None,
        gate=spec.gate,
        guards=_guards(spec, ours, rival, night),
        stale_days=stale,
        number=night.repetition.number,
        days=held.days,
    )
    ruling = (
        no_authority(night.authority)
        or unreadable
        or parent_obstacle(night)
        or baseline_obstacle(case, baseline, candidate, night, spec)
        or value_obstacle(
            spec.metric,
            ours[spec.metric].value if spec.metric in ours else None,
            [one.words for one in rivals if spec.metric not in one.table],
            rule(case).explanation if compared else "",
        )
        or rule(case)
    )
    troubled = baseline is not None and rival.kind != "champion"
    judged = Judgement(
        verdict=ruling.verdict,
        reason=ruling.reason,
        explanation=ruling.explanation,
        metric=spec.metric,
        baseline_kind=rival.kind,
        baseline=baseline.champion if baseline else None,
        candidate_metrics=_plain(ours),
        baseline_metrics=_plain(rival.table),
        gain=case.comparison.gain,
        smallest_visible_gain=round(case.comparison.smallest_visible(case.margin), 10),
        min_gain=case.margin,
        confidence=spec.gate.confidence,
        slices=slices,
        holdout=held.days,
        rows=len(held.frame),
        groups=held.groups,
        guards=case.guards,
        attempt=night.repetition.number,
        level=night.repetition.level(spec.gate.confidence),
        stale_days=stale,
        unmeasured_nights=night.unmeasured + 1 if troubled else 0,
        command=rescue(spec.model_name) if ruling.reason == STUCK else "",
        offered=ruling.reason == STUCK and is_sound(case),
    )
    return judged, _plain(constant.table)


def _names(spec: PipelineSpec) -> tuple[str, ...]:
    """The metrics to measure: those that are shown, and those of guards and floors."""
    return tuple(
        dict.fromkeys([*metrics.names(spec.train.objective, spec.metric), *spec.gate.guards, *spec.gate.floors])
    )


def _rivals(
    measures: PipelineMetrics,
    held: Holdout,
    candidate: Floats,
    baseline: Baseline | None,
    night: Night,
    constant: Rival,
    pipeline: str,
) -> Iterator[Rival]:
    """The champion where it can be compared with; else a constant, and the tables of a night without a champion."""
    if baseline is not None and baseline.scores is not None and baseline.scores.shape == candidate.shape:
        scores = dict.fromkeys(constant.by_metric, baseline.scores)
        words = baseline.champion.title_in(pipeline)
        yield Rival(kind="champion", words=words, by_metric=scores, table=_values(measures, held, scores))
        return
    yield constant
    for one in night.tables if baseline is None else ():
        scores = dict.fromkeys(constant.by_metric, one.scores)
        words = f"the mean label by {one.column}"
        yield Rival(kind="popularity", words=words, by_metric=scores, table=_values(measures, held, scores))


def _constant(spec: PipelineSpec, measures: PipelineMetrics, held: Holdout, shown: Sequence[str]) -> Rival:
    scores = {name: metrics.constant(spec.train.objective, name, held.rows) for name in shown}
    return Rival(kind="constant", words="a constant scorer", by_metric=scores, table=_values(measures, held, scores))


def _hardest(
    spec: PipelineSpec, ours: Measured, rivals: Sequence[Rival], night: Night
) -> tuple[Rival, Comparison | None]:
    """The rival over which the gain is least sure: to beat it by the margin is to beat each that has a value.

    One over which nothing can be concluded comes first: it is not beaten, however large the gain looks.
    """
    lower, level = lower_is_better(spec.metric), night.repetition.level(spec.gate.confidence)
    found = [
        (one, compare_at(mine, theirs, lower_is_better=lower, level=level, seed=spec.train.seed))
        for one in rivals
        if (mine := ours.get(spec.metric)) and (theirs := one.table.get(spec.metric))
    ]
    return min(found, key=lambda pair: (pair[1].measurable, pair[1].gain.low), default=(rivals[0], None))


def _stale_days(spec: PipelineSpec, baseline: Baseline | None, night: Night) -> int | None:
    """The age of the champion's data, if it is more than the gate allows.

    A person who put old data into production knew their age: the gate then counts from that day.
    """
    if baseline is None or spec.gate.stale_after is None:
        return None
    champion = baseline.champion
    since = max(champion.data_date, champion.chosen or champion.data_date)
    stale = (night.data_date - since).days * _DAY > spec.gate.stale_after
    return (night.data_date - champion.data_date).days if stale else None


def _guards(spec: PipelineSpec, ours: Measured, rival: Rival, night: Night) -> tuple[GuardJudgement, ...]:
    """The guard rails: floors always, all others against a champion."""
    gate, seed, found = spec.gate, spec.train.seed, []
    if rival.kind == "champion":
        found += [
            judge_metric(name, ours.get(name), rival.table.get(name), loss, confidence=gate.confidence, seed=seed)
            for name, loss in gate.guards.items()
        ]
        costs = night.costs or Costs()
        if gate.max_latency is not None:
            found.append(judge_latency(costs.times, gate.max_latency, confidence=gate.confidence))
        if gate.max_size is not None:
            found.append(judge_size(costs.size, costs.champion_size, gate.max_size))
    found += [
        judge_floor(name, ours.get(name), floor, confidence=gate.confidence, seed=seed)
        for name, floor in gate.floors.items()
    ]
    return tuple(found)


def _values(measures: PipelineMetrics, held: Holdout, scores: Mapping[str, Floats]) -> dict[str, Measurement]:
    found = {name: measures.measure(name, held.rows, score) for name, score in scores.items()}
    return {name: measured for name, measured in found.items() if measured}


def _plain(table: Measured) -> dict[str, float]:
    return {name: round(measured.value, 10) for name, measured in table.items()}


def _nothing(spec: PipelineSpec, night: Night) -> Comparison:
    level = night.repetition.level(spec.gate.confidence)
    return Comparison(gain=Interval(value=0, low=0, high=0), spread=0.0, effective=0, confidence=level)


def _slices(
    spec: PipelineSpec, measures: PipelineMetrics, held: Holdout, candidate: Floats, rival: Rival, folder: Path
) -> tuple[SliceJudgement, ...]:
    frame = held.frame
    if any(spec.columns[name].derived and name not in frame for name in spec.slice_columns):
        derived = {name: column.type for name, column in spec.columns.items() if column.derived}
        derive = load_derive(folder, derived, made_columns(spec.columns))
        frame = pd.concat([derive(frame.iloc[rows]) for rows in held.by_day()])
    found = [
        compared
        for one in spec.evaluate.slices
        for compared in compare_slices(
            one,
            frame,
            metric=spec.metric,
            rows=held.rows,
            candidate=candidate,
            baseline=rival.by_metric[spec.metric],
            confidence=spec.gate.confidence,
            seed=spec.train.seed,
            measure=measures.measure,
            of_groups=measures.is_of_groups(spec.metric),
        )
    ]
    return judge_slices(found, max_loss=spec.gate.max_slice_loss, confidence=spec.gate.confidence)
