"""What a training leaves, of whatever kind: its outputs, and what is said of it. Networks and trees share it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import BytesIO

import numpy as np
from torch import Tensor

from ratchet.contracts.accumulation import Segment as SegmentRecord
from ratchet.contracts.summaries import Evaluation, FeatureSet, TrainedModel
from ratchet.metrics.metrics import Rows as MetricRows
from ratchet.model.description import Description
from ratchet.model.networks import Predictor, finish
from ratchet.model.own_metric import PipelineMetrics
from ratchet.model.saving import digest_of_model, dump
from ratchet.runtime.context import StageContext
from ratchet.store.checkpoint_folder import StoreCheckpointFolder
from tasks.train.checkpoint import Checkpointer
from tasks.train.data import Rows
from tasks.train.hooks import Hooks
from tasks.train.loop import TrainResult
from tasks.train.losses import Loss, Mass
from tasks.train.settings import Segment, Settings


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training that has ended; its model is in the outputs. settings, loss and mass: those that it was computed with.

    network: on its device, with the last weights.
    """

    network: Predictor
    settings: Settings
    loss: Loss
    mass: Mass
    summary: TrainedModel
    metrics: dict[str, float]


def hooks_of(ctx: StageContext, model: Predictor, folder: StoreCheckpointFolder) -> Hooks:
    """What the loop of a stage calls. model: the one that is trained. folder: of its checkpoints."""
    measures = PipelineMetrics(ctx.spec, ctx.folder)
    return Hooks(
        progress=lambda message, done, total, fields: ctx.log.progress(message, done=done, total=total, **fields),
        warn=ctx.log.warning,
        begun=lambda step, segments: say_how_it_begins(ctx, folder, step, segments),
        stopping=ctx.stopping.is_set,
        metric=lambda rows, scores: metric_of(measures, ctx.spec.metric, rows, scores),
        finish=lambda raw: finish(model, ctx.spec.train.objective, raw),
    )


def metric_of(measures: PipelineMetrics, name: str, rows: Rows, scores: Tensor) -> float | None:
    """A metric of final scores of rows; None where it has no value."""
    measured = MetricRows(
        label=rows.label.double().cpu().numpy(),
        offsets=None if rows.sizes is None else np.append(0, np.cumsum(rows.sizes.cpu().numpy())),
        weight=None if rows.weight is None else rows.weight.double().cpu().numpy(),
    )
    return measures.value(name, measured, scores.double().cpu().numpy())


def say_how_it_begins(
    ctx: StageContext, folder: StoreCheckpointFolder, step: int | None, segments: Sequence[Segment]
) -> None:
    """Log from which checkpoint a training goes on, or why from none. step: that of the checkpoint, or None."""
    if step is None:
        if why := folder.why_fresh():
            ctx.log.event("fresh", f"begins with step 0, not from the checkpoint of another training: {why}")
        return
    other = ""
    if len(segments) > 1 and segments[-1].begin == step and not ctx.request.segments:
        now, before = segments[-1].accumulation, segments[-2].accumulation
        other = f"; a step is computed in {now} micro-batches now, and in {before} up to there" if now != before else ""
    ctx.log.event("resumed", f"goes on from the checkpoint of step {step:,}{other}", step=step)


def report_failed_saves(ctx: StageContext, checkpointer: Checkpointer) -> None:
    """Say at the end what the run went without: a stop would have lost that work."""
    if checkpointer.failures:
        message = (
            f"{checkpointer.failures} of {len(checkpointer.stalls)} checkpoints could not be saved: a training that"
            " stops loses that work; check the room and the limits of the store"
        )
        ctx.log.warning(message, failures=checkpointer.failures, saves=len(checkpointer.stalls))


def save_trace(ctx: StageContext, result: TrainResult) -> None:
    """Add what a later training of the same is compared with: float32 [steps, 2], losses and norms of gradients."""
    buffer = BytesIO()
    np.save(buffer, result.trace)
    ctx.transaction.add_bytes("trace", buffer.getvalue(), rows=len(result.trace))


def save_model(ctx: StageContext, description: Description, network: Predictor) -> str:
    """Add the model to the outputs. Returns its digest."""
    weights, described, _ = dump(description, network)
    ctx.transaction.add_bytes("weights", weights)
    ctx.transaction.add_bytes("description", described)
    ctx.transaction.add_bytes("code", ctx.store.read(ctx.request.bundle.key))
    return digest_of_model(weights, described)


def summary_of(
    digest: str, features: FeatureSet, settings: Settings, result: TrainResult, *, parameters: int, rows: int
) -> TrainedModel:
    """What a training made. digest: of the model. parameters: of it. rows: those for training."""
    return TrainedModel(
        digest=digest,
        objective=settings.objective,
        split=features.split,
        evaluations=tuple(Evaluation(**asdict(each)) for each in result.history),
        best=result.best,
        level=round(result.recipe.level, 6),
        fall=round(result.recipe.fall, 6),
        batch_size=settings.batch_size,
        accumulation=result.segments[-1].accumulation,
        segments=tuple(SegmentRecord(**asdict(each)) for each in result.segments),
        parameters=parameters,
        rows=rows,
        resumed_from=result.resumed_from,
    )
