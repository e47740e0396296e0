"""The model in production, in a process of its own, brought here to be measured, or the reason why it cannot be."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from ratchet.contracts import readers, summaries
from ratchet.contracts.champion import Champion
from ratchet.contracts.columns import Column
from ratchet.contracts.errors import CorruptArtifact, RatchetError
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.refit import maker
from ratchet.contracts.result import StageResult
from ratchet.contracts.snapshot import Snapshot
from ratchet.metrics.metrics import Floats
from ratchet.model import service
from ratchet.model.files import lay_out
from ratchet.model.holdout import Holdout, read_again
from ratchet.model.package import pack, unpack
from ratchet.model.process import ModelError, ModelProcess
from ratchet.runtime.context import StageContext
from ratchet.runtime.logs import StageLog
from ratchet.store.artifacts import fetch, read_bytes
from ratchet.store.base import Store
from ratchet.store.publishing import read_manifest
from tasks.evaluate.classes import same_classes
from tasks.evaluate.passing import raise_passing

Trouble = Literal["baseline-missing", "baseline-unreadable", "other-target"]
_CAUSES = (RatchetError, ModelError, OSError, RuntimeError, MemoryError, LookupError, ValueError, TypeError)


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """scores: the champion's, None where it could not be asked, for the reason in `trouble` and `cause`.

    model: its process. columns: those of its own pipeline file, None where it did not record them. seen: the held-out
    days that it, or a model that it began with, was trained or tuned on. latency: milliseconds for a thousand rows,
    which are `batch`.
    """

    champion: Champion
    scores: Floats | None = None
    model: ModelProcess | None = None
    columns: Mapping[str, Column] | None = None
    seen: tuple[date, ...] = ()
    trouble: Trouble | None = None
    cause: str = ""
    latency: float | None = None
    batch: pd.DataFrame | None = None


def start(ctx: StageContext, champion: Champion, holdout: tuple[date, ...], ends: ExitStack) -> Baseline:
    """Start the champion from its own weights, description, pipeline's code and scoring code. ends: ends its process.

    A fault of its files or of its own code is returned as `trouble`, here and by `ask`. What may pass, as a store that
    does not answer or a lack of memory, is raised: a verdict about it would be stored.
    """

    def begin() -> Baseline:
        result = read_manifest(ctx.store, maker(champion.manifests)).result
        if other := _other_target(ctx.spec, champion, result):
            return Baseline(champion=champion, trouble="other-target", cause=other)
        package = _package(ctx.store, champion, ctx.scratch, ctx.log)
        folder = lay_out(ctx.store, result, ctx.scratch / "champion", ctx.scratch)
        return Baseline(
            champion=champion,
            model=ends.enter_context(ModelProcess(package, folder, ctx.disk)),
            columns=_columns(result),
            seen=summaries.trained(result).has_seen(holdout),
        )

    return _tried(Baseline(champion=champion), begin)


def ask(ctx: StageContext, started: Baseline, held: Holdout, snapshot: Snapshot, batch: int) -> Baseline:
    """Let the champion score the held-out rows, with its own columns of them. batch: rows to measure its latency."""
    model, champion = started.model, started.champion
    if model is None:
        return started

    def score() -> Baseline:
        if model.digest != champion.digest:
            raise CorruptArtifact(f"its files are model {model.digest[:12]}, not {champion.digest[:12]}")
        frame = _frame(ctx, started, held, snapshot)
        scores = same_classes(service.score(model, frame, held), ctx.spec)
        if not np.isfinite(scores).all():
            raise CorruptArtifact("it gives scores that are no numbers")
        first = frame.head(batch)
        return replace(started, scores=scores, latency=model.latency(first), batch=first)

    return _tried(started, score)


def _tried(before: Baseline, work: Callable[[], Baseline]) -> Baseline:
    """What the work returns, or the trouble that it met."""
    try:
        return work()
    except _CAUSES as error:
        raise_passing(error)
        cause = error.cause if isinstance(error, CorruptArtifact) else _said(error)
        gone = isinstance(error, KeyError) or "is gone" in cause
        trouble: Trouble = "baseline-missing" if gone else "baseline-unreadable"
        return replace(before, model=None, seen=(), trouble=trouble, cause=cause[:500])


def _said(error: BaseException) -> str:
    return str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"


def _frame(ctx: StageContext, started: Baseline, held: Holdout, snapshot: Snapshot) -> pd.DataFrame:
    """The held-out rows as the champion's own pipeline file declares them.

    Raises CorruptArtifact if ingest could not keep a column that the champion needs.
    """
    columns = started.columns
    if columns is None or _as_given(columns) == _as_given(ctx.spec.columns):
        return held.frame
    given = {name: column for name, column in columns.items() if readers.is_given(column)}
    reader = readers.reader(columns)
    source = {name: column.type for name, column in ctx.spec.columns.items() if not column.derived}
    files = {day.day: day.file for day in snapshot.days}
    if reader.lacks(source):
        kept = next((kept for kept in snapshot.kept if kept.reader == reader), None)
        files = {day.day: day.file for day in kept.days} if kept else {}
        if lost := [day for day, _ in held.places if day not in files]:
            other = ", ".join(name for name, kind in reader.columns.items() if source.get(name) != kind)
            cause = (kept.cause if kept else "") or "ingest of this run did not keep them: start a new run of this date"
            raise CorruptArtifact(
                f"it reads columns that {lost[0]} has no more as it knew them ({other}): {cause}; to do: let the source"
                f" deliver them with the held-out days again, or put a model into production by hand (ratchet promote)"
            )
    paths = [fetch(ctx.store, files[day], ctx.disk) for day, _ in held.places]
    present = _present(paths[0], given, reader.needed)
    return read_again(held, paths, present)


def _other_target(spec: PipelineSpec, champion: Champion, result: StageResult) -> str:
    """How a champion of another pipeline predicts something else than a candidate of this one; empty if it does not."""
    if not champion.is_foreign(spec.name):
        return ""
    columns = _columns(result) or {}
    label = next((name for name, column in columns.items() if column.role == "label"), "")
    ours, theirs = (spec.train.objective, spec.label), (summaries.trained(result).objective, label or spec.label)
    if ours == theirs:
        return ""
    return (
        f"it is of pipeline {champion.pipeline} (objective {theirs[0]}, label {theirs[1]}), and {spec.name} has the "
        f"objective {ours[0]} and the label {ours[1]}; to do: give one of the two pipelines another register.model"
    )


def _present(path: Path, columns: Mapping[str, Column], needed: tuple[str, ...]) -> dict[str, Column]:
    """The columns that a file has, and those that may not miss."""
    import pyarrow.parquet as pq

    there = {*pq.read_schema(path).names, *needed}
    return {name: column for name, column in columns.items() if name in there}


def _as_given(columns: Mapping[str, Column]) -> dict[str, tuple[str, str]]:
    return {name: (column.type, column.role) for name, column in columns.items() if readers.is_given(column)}


def _columns(result: StageResult) -> dict[str, Column] | None:
    return readers.recorded_columns(result.parts)


def _package(store: Store, champion: Champion, scratch: Path, log: StageLog) -> Path:
    """The scoring code that the champion was evaluated and is served with."""
    evaluated = champion.manifests.get("evaluate")
    packed = read_manifest(store, evaluated).result.outputs.get("scoring") if evaluated else None
    if packed is None:
        said = f"version {champion.version} was made before scoring code was kept: the installed code scores it"
        log.event("champion-code", said, level="warning", version=champion.version)
    return unpack(pack() if packed is None else read_bytes(store, packed), scratch / "champion-scoring")
