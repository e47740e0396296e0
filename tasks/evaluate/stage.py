"""evaluate: candidate and champion on the same held-out rows, each as it is served, in a process of its own."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts import summaries
from ratchet.contracts.fingerprint import digest as sha256_of
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.judgements import Service
from ratchet.contracts.refit import maker
from ratchet.contracts.summaries import Judgement
from ratchet.metrics.metrics import Floats
from ratchet.model import holdout, service
from ratchet.model.derivation import FILE
from ratchet.model.files import lay_out
from ratchet.model.holdout import Holdout
from ratchet.model.package import pack, unpack
from ratchet.model.process import ModelProcess, write_rows
from ratchet.runtime.context import Finished, StageContext
from ratchet.store.publishing import read_manifest
from tasks.evaluate.baseline import Baseline, ask, start
from tasks.evaluate.costs import size_of, time_in_turns
from tasks.evaluate.judging import judge
from tasks.evaluate.night import Costs, night_of
from tasks.evaluate.tables import tables

_LATENCY_ROWS = 1000


def run(ctx: StageContext) -> Finished:
    """Score, measure, compare, judge, and ask as a service asks.

    Output `scores`: day, row in the day's file, label, group, weight, candidate and baseline of each held-out row;
    `scoring`: the code of ours that scored the candidate, which register gives to the version; `asked` and `answers`:
    some raw rows and their scores, by which register tries what it has packed.
    """
    spec, result = ctx.spec, ctx.upstream("train")
    trained = summaries.trained(result)
    snapshot = summaries.snapshot(ctx.upstream("ingest"))
    scoring = pack()
    with ExitStack() as ends:
        with ctx.phase("read"):
            package = unpack(scoring, ctx.scratch / "scoring")
            folder = lay_out(ctx.store, result, ctx.scratch / "candidate", ctx.scratch)
            candidate = ends.enter_context(ModelProcess(package, folder, ctx.disk))
            champion = ctx.request.champion
            started = start(ctx, champion, trained.split.holdout, ends) if champion else None
            held = holdout.read(ctx.store, spec, snapshot, trained.split.holdout, ctx.disk)
            digest = candidate.digest
        with ctx.phase("ask"):
            derives = (ctx.folder / FILE).is_file()
            groups = service.by_group(spec.train.objective, folder, derives=derives)
            rounds = service.may_round(folder, spec.train.model.kind, derives=derives)
            sample = service.sample_of(held, spec.group if groups else None)
            *asked, served = service.ask(candidate, held.frame, sample)
        with ctx.phase("score"):
            scores = service.score(candidate, held.frame, held)
            baseline = ask(ctx, started, held, snapshot, _LATENCY_ROWS) if started else None
            latencies = _latencies(candidate, held, baseline)
            seen = _with_derived(ctx, candidate, held)
            costs = _costs(ctx, candidate, baseline, held)
    with ctx.phase("compare"):
        days = () if baseline else trained.split.train
        simple = tuple(tables(ctx.store, spec, snapshot, days, held, ctx.disk))
        night = night_of(ctx.request, trained, digest, tables=simple, costs=costs)
        judged, constant = judge(spec, seen, scores, baseline, night, ctx.folder)
        judged = judged.model_copy(update={"scores": sha256_of(np.ascontiguousarray(scores, "<f8").tobytes())})
        refused = service.refusal(scores, asked, served, sample, spec.register_, rounds=rounds)
        judged = _with_service(judged, served, refused)
    with ctx.phase("write"):
        path = _write_scores(ctx, held, scores, baseline)
        ctx.transaction.add("scores", path, rows=len(held.frame))
        ctx.transaction.add_bytes("scoring", scoring)
        write_rows(held.frame.iloc[sample.places], ctx.disk / "asked.arrow")
        ctx.transaction.add("asked", ctx.disk / "asked.arrow", rows=len(sample.places))
        np.save(ctx.disk / "answers.npy", asked[1], allow_pickle=False)
        ctx.transaction.add("answers", ctx.disk / "answers.npy")
    ctx.log.event("verdict", f"{judged.verdict} ({judged.reason}): {judged.explanation}")
    return Finished(
        content=_content(judged, trained.digest),
        summary=judged,
        metrics=_metrics(judged, constant) | latencies,
    )


def _with_derived(ctx: StageContext, candidate: ModelProcess, held: Holdout) -> Holdout:
    """The held-out rows with the derived columns that slices are of, as the candidate's own code makes them."""
    derived = [name for name in ctx.spec.slice_columns if ctx.spec.columns[name].derived]
    if not derived:
        return held
    made = pd.concat([candidate.derive(held.frame.iloc[rows], derived) for rows in held.by_day()])
    return replace(held, frame=held.frame.assign(**{name: made[name].to_numpy() for name in derived}))


def _with_service(judged: Judgement, served: Service, refused: tuple[str, str] | None) -> Judgement:
    """The judgement with how the candidate answers as a service, which can refuse a promotion and make none."""
    if refused is None or not judged.has_version:
        return judged.model_copy(update={"service": served})
    reason, words = refused
    explanation = f"{words}; {judged.explanation}"
    if judged.offered:  # the verdict is about production; a version that cannot serve is no way out of it
        return judged.model_copy(update={"service": served, "offered": False, "explanation": explanation})
    return judged.model_copy(
        update={"service": served, "verdict": "reject", "reason": reason, "explanation": explanation}
    )


def _costs(ctx: StageContext, candidate: ModelProcess, baseline: Baseline | None, held: Holdout) -> Costs | None:
    """What both models cost to serve, where there is a champion that can be asked."""
    if baseline is None or (champion := baseline.model) is None or (theirs := baseline.batch) is None:
        return None
    ours = held.frame.head(_LATENCY_ROWS)
    return Costs(
        times=time_in_turns(ctx.spec.gate, lambda: candidate.latency(ours), lambda: champion.latency(theirs)),
        size=size_of(ctx.upstream("train")),
        champion_size=size_of(read_manifest(ctx.store, maker(baseline.champion.manifests)).result),
    )


def _content(judged: Judgement, digest: str) -> str:
    metrics = {name: f"{value:.6g}" for name, value in judged.candidate_metrics.items()}
    others = {name: f"{value:.6g}" for name, value in judged.baseline_metrics.items()}
    against = judged.baseline.digest if judged.baseline else "constant"
    return digest_of([judged.verdict, judged.reason, metrics, others, digest, against])


def _metrics(judged: Judgement, constant: dict[str, float]) -> dict[str, float]:
    """Everything as numbers by name."""
    tables = {"candidate": judged.candidate_metrics, "constant": constant}
    if judged.baseline_kind == "champion":
        tables["baseline"] = judged.baseline_metrics
    found = {f"{who}.{name}": value for who, table in tables.items() for name, value in table.items()}
    return found | {"gain": judged.gain.value, "gain.low": judged.gain.low, "gain.high": judged.gain.high}


def _latencies(candidate: ModelProcess, held: Holdout, baseline: Baseline | None) -> dict[str, float]:
    """Milliseconds for a thousand rows at once. They decide nothing, and differ from one try to the next."""
    batch = held.frame.head(_LATENCY_ROWS)
    taken = {"candidate": candidate.latency(batch)}
    if baseline and baseline.latency is not None:
        taken["baseline"] = baseline.latency
    scale = _LATENCY_ROWS / len(batch)
    return {f"{who}.latency_ms_per_1000_rows": round(found * scale, 3) for who, found in taken.items()}


def _columns(name: str, scores: Floats) -> dict[str, Floats]:
    """Scores as columns, one for each class where there are several."""
    if scores.ndim == 1:
        return {name: scores}
    return {f"{name}_{place}": scores[:, place] for place in range(scores.shape[1])}


def _write_scores(ctx: StageContext, held: Holdout, candidate: Floats, baseline: Baseline | None) -> Path:
    days = [np.full(len(places), np.datetime64(day)) for day, places in held.places]
    columns: dict[str, object] = {
        "day": pa.array(np.concatenate(days)),
        "row": np.concatenate([places for _, places in held.places]),
        "label": held.rows.label,
    }
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
