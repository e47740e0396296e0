"""train: a model from encoded days. Adapts the contract to the loop; the loop itself knows nothing of Ratchet."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ratchet.contracts import summaries
from ratchet.contracts.errors import ConfigurationError, OutOfMemory, Preempted, RatchetError
from ratchet.contracts.gate import LOWER_IS_BETTER
from ratchet.contracts.step_rows import auto_batch_size
from ratchet.contracts.summaries import Epoch, FeatureDay, FeatureSet, TrainedModel
from ratchet.metrics.metrics import Rows as Measurable
from ratchet.metrics.metrics import measure
from ratchet.model.description import Architecture, CategoricalColumn, Description, NumericColumn
from ratchet.model.fitted import Fitted
from ratchet.model.networks import Network, custom_body, finish
from ratchet.model.saving import code_digest, digest_of_model, dump
from ratchet.runtime.context import Finished, StageContext
from ratchet.runtime.user_code import blame, load_module
from ratchet.store.artifacts import fetch, read_bytes
from ratchet.store.checkpoint_folder import StoreShelf
from tasks.train.checkpoint import Checkpoints
from tasks.train.data import Rows, join
from tasks.train.loop import Hooks, Loop, NotFinite, Stopped, Trained
from tasks.train.losses import LOSSES, MASSES, Loss, Mass, mass_of_rows
from tasks.train.settings import Settings

_CODE = "model.py"


def run(ctx: StageContext) -> Finished:
    """Train, or go on from the newest checkpoint. Raises Preempted when told to stop; then its work is saved."""
    spec, settings = ctx.spec, ctx.spec.train
    features = summaries.features(ctx.upstream("features"))
    device = _prepare(ctx)
    fitted = Fitted.from_bytes(read_bytes(ctx.store, ctx.upstream("features").outputs["fitted"]))
    described = _describe(ctx, features, fitted)
    network = _fit(Network(described, custom_body(described, ctx.folder)), fitted)
    with ctx.phase("read"):
        train = _read(ctx, network, features, features.split.train)
        valid = _read(ctx, network, features, features.split.valid) if features.split.valid else None
    batch_size = auto_batch_size(len(train)) if settings.batch_size == "auto" else settings.batch_size
    accumulation = ctx.request.accumulation
    if accumulation > 1:
        ctx.log.event(
            "accumulation",
            f"a step of {batch_size:,} rows is computed in {accumulation} micro-batches, to need less memory",
            batch_size=batch_size,
            accumulation=accumulation,
        )
    checkpoints = Checkpoints(
        StoreShelf(ctx.store, ctx.request),
        keep=settings.checkpoint.keep,
        warn=ctx.log.warning,
    )
    loss, mass = _loss(ctx)
    with ctx.phase("train"), _memory_named(batch_size, accumulation):
        loop = Loop(
            network.to(device),
            Settings(
                objective=settings.objective,
                epochs=settings.epochs,
                batch_size=batch_size,
                learning_rate=settings.learning_rate,
                weight_decay=settings.weight_decay,
                seed=settings.seed,
                patience=settings.patience,
                checkpoint_every_s=settings.checkpoint.every,
                lower_is_better=spec.metric in LOWER_IS_BETTER,
                accumulation=accumulation,
            ),
            train=train,
            valid=valid,
            loss=loss,
            mass=mass,
            checkpoints=checkpoints,
            hooks=_hooks(ctx, network),
        )
        trained = _run(loop)
    weights, description, _ = dump(described, network)
    ctx.transaction.add_bytes("weights", weights)
    ctx.transaction.add_bytes("description", description)
    ctx.transaction.add_bytes("code", ctx.store.read(ctx.request.bundle.key))
    document = TrainedModel(
        digest=digest_of_model(weights, description),
        objective=settings.objective,
        split=features.split,
        epochs=tuple(Epoch(**asdict(done)) for done in trained.history),
        best_epoch=trained.best_epoch,
        batch_size=batch_size,
        accumulation=accumulation,
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        rows=len(train),
        resumed_from=trained.resumed_from,
    )
    return Finished(content=document.digest, summary=document, metrics=_metrics(trained, len(train), checkpoints))


def _prepare(ctx: StageContext) -> torch.device:
    """Seeds, threads and determinism. Threads follow the spec, not the machine: sums depend on how they are split."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.manual_seed(ctx.spec.train.seed)
    torch.set_num_threads(max(1, round(ctx.spec.resources["train"].cpus)))
    wanted = ctx.spec.resources["train"].gpus
    if wanted and not torch.cuda.is_available():
        raise ConfigurationError(
            f"resources.train.gpus is {wanted}, and there is no GPU here",
            remedy="set it to 0, or use a host that has one",
        )
    # `use_deterministic_algorithms` does the same, and imports torch's compiler to tell it: over a second. A model
    # that compiles itself finds the variable.
    os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"
    torch.set_deterministic_debug_mode("warn" if wanted else "error")
    return torch.device("cuda" if wanted else "cpu")


def _describe(ctx: StageContext, features: FeatureSet, fitted: Fitted) -> Description:
    columns, settings = ctx.spec.columns, ctx.spec.train.model
    sizes = [len(ids) for ids in fitted.vocabulary]
    return Description(
        objective=ctx.spec.train.objective,
        numeric=tuple(NumericColumn(name=name, transform=columns[name].transform) for name in features.numeric),
        categorical=tuple(
            CategoricalColumn(name=name, type=columns[name].type, vocabulary=size)
            for name, size in zip(features.categorical, sizes, strict=True)
        ),
        derived={name: column.type for name, column in columns.items() if column.derived},
        architecture=Architecture(
            kind=settings.kind,
            embedding_dim=settings.embedding_dim,
            hidden=settings.hidden,
            cross_layers=settings.cross_layers,
            dropout=settings.dropout,
        ),
        code=code_digest(ctx.folder),
        classes=len(columns[ctx.spec.label].allowed or ()) if ctx.spec.train.objective == "multiclass" else 1,
    )


def _fit(network: Network, fitted: Fitted) -> Network:
    """Put what was fitted on the training days into the model's buffers."""
    preprocess = network.preprocess
    preprocess.mean.copy_(torch.from_numpy(fitted.mean))
    preprocess.scale.copy_(torch.from_numpy(fitted.std))
    preprocess.vocabulary.copy_(torch.from_numpy(np.concatenate([*fitted.vocabulary, np.zeros(0, np.int64)])))
    network.label_mean.fill_(fitted.label_mean)
    network.label_scale.fill_(fitted.label_std)
    return network


def _read(ctx: StageContext, network: Network, features: FeatureSet, days: Sequence[Any]) -> Rows:
    encoded = features.of(tuple(days))
    return join((_day(ctx, network, day) for day in encoded), sum(day.rows for day in encoded))


def _day(ctx: StageContext, network: Network, day: FeatureDay) -> Rows:
    """One day's arrays, verified and mapped, with ids looked up once for all epochs."""

    def tensor(name: str) -> Tensor | None:
        if name not in day.arrays:
            return None
        path: Path = fetch(ctx.store, day.arrays[name], ctx.disk)
        return torch.from_numpy(np.load(path, allow_pickle=False))

    numeric, ids, label, group = tensor("numeric"), tensor("categorical"), tensor("label"), tensor("group")
    if numeric is None or ids is None or label is None:
        raise RatchetError(f"{day.day}: arrays are missing", remedy="run features again with --rebuild")
    return Rows(
        numeric=numeric,
        places=network.preprocess.places(ids),
        label=label,
        weight=tensor("weight"),
        sizes=None if group is None else group.diff(),
    )


def _loss(ctx: StageContext) -> tuple[Loss, Mass]:
    """The objective's loss, or `loss(scores, labels, weights, groups)` of model.py, and what it is a mean over.

    A loss of the pipeline's own is taken to be a mean over rows.
    """
    module = load_module(ctx.folder, _CODE) if ctx.spec.train.model.kind.startswith(_CODE) else None
    own = getattr(module, "loss", None)
    if own is None:
        return LOSSES[ctx.spec.train.objective], MASSES[ctx.spec.train.objective]

    def loss(scores: Tensor, label: Tensor, weight: Tensor | None, group: Tensor | None) -> Tensor:
        try:
            made = own(scores, label, weight, group)
        except Exception as error:
            if _is_out_of_memory(error):
                raise
            raise ConfigurationError(blame(error, ctx.folder, _CODE), remedy=f"mend loss in {_CODE}") from error
        if not isinstance(made, Tensor) or made.dim():
            raise ConfigurationError(f"{_CODE}: loss gave {made!r:.80}", remedy="return a tensor with one number")
        return made

    return loss, mass_of_rows


def _hooks(ctx: StageContext, network: Network) -> Hooks:
    metric = ctx.spec.metric

    def measured(rows: Rows, scores: Tensor) -> float | None:
        offsets = None
        if rows.sizes is not None:
            offsets = np.append(0, np.cumsum(rows.sizes.cpu().numpy()))
        label = rows.label.double().cpu().numpy()
        found = measure(metric, Measurable(label=label, offsets=offsets), scores.double().cpu().numpy())
        return None if found is None else found.value

    return Hooks(
        progress=lambda message, done, total, fields: ctx.log.progress(message, done=done, total=total, **fields),
        stopping=ctx.stopping.is_set,
        metric=measured,
        finish=lambda raw: finish(network, ctx.spec.train.objective, raw),
    )


@contextmanager
def _memory_named(batch_size: int, accumulation: int) -> Iterator[None]:
    """Memory that ran out, on a GPU or the host, as OutOfMemory with what it was needed for."""
    try:
        yield
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        split = f", in {accumulation} micro-batches" if accumulation > 1 else ""
        said = str(error).partition("\n")[0].partition(". See ")[0] or type(error).__name__
        raise OutOfMemory(
            f"train ran out of memory in a step of {batch_size:,} rows{split}: {said:.200}",
            remedy="the next try computes the step in twice as many micro-batches; for good, raise "
            "resources.train.memory or take a larger GPU, lower train.batch_size, or make train.model smaller",
        ) from error


def _is_out_of_memory(error: BaseException) -> bool:
    """Also the RuntimeError by which torch says that the host has no memory left."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def _run(loop: Loop) -> Trained:
    try:
        return loop.run()
    except Stopped:
        raise Preempted("training was told to stop and has saved its state") from None
    except NotFinite as error:
        raise RatchetError(
            f"{error}; no such state was saved",
            remedy="lower train.learning_rate, or look for extreme values in the numeric columns",
        ) from error


def _metrics(trained: Trained, rows: int, checkpoints: Checkpoints) -> dict[str, float]:
    best = next(done for done in trained.history if done.epoch == trained.best_epoch)
    seconds = sum(done.seconds for done in trained.history)
    metrics = {
        "training_throughput_samples_per_sec": rows * len(trained.history) / max(seconds, 1e-9),
        "data_loading_latency_ms": trained.loading * 1000,
        "checkpoint_duration_ms": 1000 * sum(checkpoints.stalls) / max(len(checkpoints.stalls), 1),
        "train_loss": best.loss,
        "epochs": float(len(trained.history)),
    }
    return metrics if best.valid_metric is None else {**metrics, "valid_metric": best.valid_metric}
