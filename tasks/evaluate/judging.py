"""Candidate against baseline on the scores that both gave the same rows: figures, slices, obstacles."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ratchet.contracts.authority import Finding
from ratchet.contracts.gate import LOWER_IS_BETTER, family
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Interval, Judgement, SliceJudgement
from ratchet.metrics import metrics
from ratchet.metrics.metrics import Floats, Measurement
from ratchet.model.derivation import load_derive
from ratchet.model.holdout import Holdout
from ratchet.verdict.comparison import Comparison, compare
from ratchet.verdict.rules import Case, Ruling, judge_slices, rule
from ratchet.verdict.slices import compare_slices
from tasks.evaluate.baseline import Baseline


def judge(
    spec: PipelineSpec,
    held: Holdout,
    candidate: Floats,
    baseline: Baseline | None,
    digest: str,
    folder: Path,
    authority: Finding | None = None,
) -> tuple[Judgement, dict[str, float]]:
    """The judgement on scores of the same rows, and a constant scorer's metrics beside it.

    digest: the candidate's. authority: why there is no verdict, whatever the scores are.
    """
    metric, confidence = spec.metric, spec.gate.confidence
    against = baseline.scores if baseline else None
    if against is not None and against.shape != candidate.shape:
        against = None
    unreadable = int((~np.isfinite(candidate)).reshape(len(candidate), -1).any(axis=1).sum())
    names = metrics.names(spec.train.objective, metric)
    constants = {name: metrics.constant(spec.train.objective, name, held.rows) for name in names}
    tables = [
        {} if unreadable else _values(held, dict.fromkeys(names, candidate)),
        _values(held, constants if against is None else dict.fromkeys(names, against)),
        _values(held, constants),
    ]
    ours, theirs = tables[0].get(metric), tables[1].get(metric)
    lower = family(metric) in LOWER_IS_BETTER
    margin = spec.gate.min_gain if baseline else 0.0
    compared: Comparison | None = None
    slices: tuple[SliceJudgement, ...] = ()
    if ours and theirs:
        compared = compare(ours, theirs, lower_is_better=lower, confidence=confidence, seed=spec.train.seed)
        slices = _slices(spec, held, candidate, constants[metric] if against is None else against, folder)
    case = Case(
        metric=metric,
        candidate=ours.value if ours else 0.0,
        baseline=theirs.value if theirs else 0.0,
        comparison=compared or _nothing(confidence),
        slices=slices,
        margin=margin,
        units="groups" if held.rows.offsets is not None else "rows",
        against=baseline.champion.title if baseline and against is not None else "a constant scorer",
        first=baseline is None,
    )
    ruling = (
        _no_authority(authority)
        or _unreadable(unreadable)
        or _obstacle(case, baseline, candidate, digest)
        or rule(case)
    )
    judged = Judgement(
        verdict=ruling.verdict,
        reason=ruling.reason,
        explanation=ruling.explanation,
        metric=metric,
        baseline_kind="constant" if against is None else "champion",
        baseline=baseline.champion if baseline else None,
        candidate_metrics=_plain(tables[0]),
        baseline_metrics=_plain(tables[1]),
        gain=case.comparison.gain,
        smallest_visible_gain=round(case.comparison.smallest_visible(margin), 10),
        min_gain=margin,
        confidence=confidence,
        slices=slices,
        holdout=held.days,
        rows=len(held.frame),
        groups=held.groups,
    )
    return judged, _plain(tables[2])


def _no_authority(finding: Finding | None) -> Ruling | None:
    """The ruling where ledger and registry do not say what is in production, else None."""
    if finding is None:
        return None
    explanation = f"{finding.explanation}; nothing is promoted until that is settled: {finding.remedy}"
    return Ruling(verdict="inconclusive", reason=finding.name, explanation=explanation)


def _unreadable(rows: int) -> Ruling | None:
    """The ruling on a candidate that gives some rows a score that is no number, else None."""
    if not rows:
        return None
    said = f"the candidate gives {rows:,} rows a score that is no number; to do: see the losses of train"
    return Ruling(verdict="reject", reason="candidate-unreadable", explanation=said)


def _obstacle(case: Case, baseline: Baseline | None, candidate: Floats, digest: str) -> Ruling | None:
    """The ruling where no fair comparison is possible, else None."""
    if baseline is None:
        return None
    production = baseline.champion.title
    if baseline.trouble:
        what = "is missing" if baseline.trouble == "baseline-missing" else "cannot be measured"
        return Ruling(
            verdict="inconclusive",
            reason=baseline.trouble,
            explanation=f"the model of {production} {what}: {baseline.cause};"
            f" no model replaces one that it cannot be compared with; {rule(case).explanation}",
        )
    scores = baseline.scores
    if scores is not None and scores.shape != candidate.shape:
        return Ruling(
            verdict="inconclusive",
            reason="baseline-unreadable",
            explanation=f"{production} gives scores of the shape {scores.shape[1:]}, the candidate of the shape"
            f" {candidate.shape[1:]}",
        )
    if scores is not None and np.array_equal(scores, candidate):
        how = (
            "is the same model"
            if baseline.champion.digest == digest
            else "gives each row the same score as the candidate"
        )
        return Ruling(verdict="reject", reason="identical", explanation=f"{production} {how}; there is nothing to gain")
    if baseline.seen:
        days = ", ".join(map(str, baseline.seen[:5]))
        return Ruling(
            verdict="inconclusive",
            reason="baseline-saw-holdout",
            explanation=f"{production} was trained on held-out days ({days}), so the comparison is not fair;"
            f" {rule(case).explanation}",
        )
    return None


def _values(held: Holdout, scores: Mapping[str, Floats]) -> dict[str, Measurement]:
    found = {name: metrics.measure(name, held.rows, score) for name, score in scores.items()}
    return {name: measured for name, measured in found.items() if measured}


def _plain(table: Mapping[str, Measurement]) -> dict[str, float]:
    return {name: round(measured.value, 10) for name, measured in table.items()}


def _nothing(confidence: float) -> Comparison:
    return Comparison(gain=Interval(value=0, low=0, high=0), spread=0.0, effective=0, confidence=confidence)


def _slices(
    spec: PipelineSpec, held: Holdout, candidate: Floats, baseline: Floats, folder: Path
) -> tuple[SliceJudgement, ...]:
    frame = held.frame
    if any(spec.columns[name].derived and name not in frame for name in spec.evaluate.slices):
        derived = {name: column.type for name, column in spec.columns.items() if column.derived}
        frame = load_derive(folder, derived)(frame)
    found = [
        one
        for name in spec.evaluate.slices
        for one in compare_slices(
            name,
            frame[name],
            metric=spec.metric,
            rows=held.rows,
            candidate=candidate,
            baseline=baseline,
            confidence=spec.gate.confidence,
            seed=spec.train.seed,
        )
    ]
    return judge_slices(found, max_loss=spec.gate.max_slice_loss, confidence=spec.gate.confidence)
