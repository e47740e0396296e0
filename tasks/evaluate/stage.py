"""evaluate: candidate and champion on the same held-out rows, each by the code that it is served with; the verdict."""

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts import summaries
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.summaries import Judgement
from ratchet.metrics.metrics import Floats
from ratchet.model.files import lay_out
from ratchet.model.package import pack, unpack
from ratchet.model.scorer import PackedModel, Scorer
from ratchet.runtime.context import Finished, StageContext
from ratchet.store.publishing import read_manifest
from tasks.evaluate import holdout
from tasks.evaluate.baseline import Baseline, ask
from tasks.evaluate.costs import size_of, time_in_turns
from tasks.evaluate.holdout import Holdout
from tasks.evaluate.judging import judge
from tasks.evaluate.night import Costs, night_of
from tasks.evaluate.tables import tables

_LATENCY_ROWS = 1000
_LATENCY_TRIES = 5


def run(ctx: StageContext) -> Finished:
    """Score, measure, compare, judge.

    Output `scores`: label, group, weight, candidate and baseline of each held-out row; `scoring`: the code of ours that
    scored the candidate, which register gives to the version.
    """
    spec, result = ctx.spec, ctx.upstream("train")
    trained = summaries.trained(result)
    with ctx.phase("read"):
        snapshot = summaries.snapshot(ctx.upstream("ingest"))
        held = holdout.read(ctx.store, spec, snapshot, trained.split.holdout, ctx.disk)
        scoring = pack()
        package = unpack(scoring, ctx.scratch / "scoring")
        candidate = PackedModel(package, lay_out(ctx.store, result, ctx.scratch / "candidate", ctx.scratch))
    with ctx.phase("score"):
        scores = candidate.score(held.frame)
        baseline = _ask(ctx, held)
        costs = _costs(ctx, candidate, baseline, held.frame.head(_LATENCY_ROWS))
    with ctx.phase("compare"):
        simple = () if baseline else tuple(tables(ctx.store, spec, snapshot, trained.split.train, held, ctx.disk))
        night = night_of(ctx.request, candidate.digest, tables=simple, costs=costs)
        judged, constant = judge(spec, held, scores, baseline, night, ctx.folder)
    with ctx.phase("write"):
        path = _write_scores(ctx, held, scores, baseline)
        ctx.transaction.add("scores", path, rows=len(held.frame))
        ctx.transaction.add_bytes("scoring", scoring)
    ctx.log.event("verdict", f"{judged.verdict} ({judged.reason}): {judged.explanation}")
    return Finished(
        content=_content(judged, trained.digest),
        summary=judged,
        metrics=_metrics(judged, constant, held, candidate, baseline),
    )


def _ask(ctx: StageContext, held: Holdout) -> Baseline | None:
    if ctx.request.champion is None:
        return None
    return ask(
        ctx.store,
        ctx.request.champion,
        score=lambda model: model.score(held.frame),
        holdout=held.days,
        scratch=ctx.scratch,
        log=ctx.log,
    )


def _costs(ctx: StageContext, candidate: Scorer, baseline: Baseline | None, batch: pd.DataFrame) -> Costs | None:
    """What both models cost to serve, where there is a champion that can be asked."""
    if baseline is None or (champion := baseline.model) is None:
        return None
    theirs = read_manifest(ctx.store, baseline.champion.manifests["train"]).result
    return Costs(
        seconds=time_in_turns(ctx.spec.gate, lambda: candidate.score(batch), lambda: champion.score(batch)),
        size=size_of(ctx.upstream("train")),
        champion_size=size_of(theirs),
    )


def _content(judged: Judgement, digest: str) -> str:
    metrics = {name: f"{value:.6g}" for name, value in judged.candidate_metrics.items()}
    others = {name: f"{value:.6g}" for name, value in judged.baseline_metrics.items()}
    against = judged.baseline.digest if judged.baseline else "constant"
    return digest_of([judged.verdict, judged.reason, metrics, others, digest, against])


def _metrics(
    judged: Judgement, constant: dict[str, float], held: Holdout, candidate: Scorer, baseline: Baseline | None
) -> dict[str, float]:
    """Everything as numbers by name; the latencies decide nothing, and differ from one try to the next."""
    tables = {"candidate": judged.candidate_metrics, "constant": constant}
    if judged.baseline_kind == "champion":
        tables["baseline"] = judged.baseline_metrics
    found = {f"{who}.{name}": value for who, table in tables.items() for name, value in table.items()}
    found |= {"gain": judged.gain.value, "gain.low": judged.gain.low, "gain.high": judged.gain.high}
    found["candidate.latency_ms_per_1000_rows"] = _latency(candidate, held)
    if baseline and baseline.model:
        found["baseline.latency_ms_per_1000_rows"] = _latency(baseline.model, held)
    return found


def _latency(model: Scorer, held: Holdout) -> float:
    """Milliseconds in which a batch of a thousand rows is scored, the best of a few."""
    batch = held.frame.head(_LATENCY_ROWS)
    taken = []
    for _ in range(_LATENCY_TRIES):
        start = time.perf_counter()
        model.score(batch)
        taken.append(time.perf_counter() - start)
    return round(min(taken) * 1000 * _LATENCY_ROWS / len(batch), 3)


def _columns(name: str, scores: Floats) -> dict[str, Floats]:
    """Scores as columns, one for each class where there are several."""
    if scores.ndim == 1:
        return {name: scores}
    return {f"{name}_{place}": scores[:, place] for place in range(scores.shape[1])}


def _write_scores(ctx: StageContext, held: Holdout, candidate: Floats, baseline: Baseline | None) -> Path:
    columns: dict[str, Floats] = {"label": held.rows.label}
    if held.rows.offsets is not None:
        columns["group"] = np.repeat(np.arange(len(held.rows.offsets) - 1), np.diff(held.rows.offsets))
    if held.rows.weight is not None:
        columns["weight"] = held.rows.weight
    columns |= _columns("candidate", candidate)
    if baseline and baseline.scores is not None:
        columns |= _columns("baseline", baseline.scores)
    path = ctx.scratch / "scores.parquet"
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)
    return path
