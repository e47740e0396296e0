"""train: a model from encoded days. Adapts the stage contract to the loop, which knows nothing of stages.

`train_model` picks the engine: the loop of networks here, or that of trees in boosted_stage.
"""

from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from ratchet.contracts import summaries
from ratchet.contracts.gate import lower_is_better
from ratchet.contracts.step_rows import auto_batch_size
from ratchet.contracts.summaries import FeatureSet, TrainedModel
from ratchet.model.custom import custom_body
from ratchet.model.fitted_state import FittedState
from ratchet.model.networks import Network
from ratchet.runtime.context import Finished, StageContext
from ratchet.store.artifacts import read_bytes
from ratchet.store.checkpoint_folder import StoreCheckpointFolder
from tasks.train import optimizer
from tasks.train.building import describe, fit
from tasks.train.checkpoint import Checkpointer
from tasks.train.custom_code import load_loss, locate_errors
from tasks.train.data import Rows
from tasks.train.days import missing, read
from tasks.train.days_in_order import parts_of, sampling_of
from tasks.train.endings import convert_endings
from tasks.train.host_table import read_once
from tasks.train.launch import launch
from tasks.train.loop import Loop
from tasks.train.memory import convert_memory_errors
from tasks.train.micro_batches import beginning, record, say
from tasks.train.parent import begin_with_parent
from tasks.train.precision import FP32, resolve
from tasks.train.profile_page import answer, page
from tasks.train.profiling import TRACED, WARM_UP, Profile, Profiler
from tasks.train.ranks import Ranks
from tasks.train.result_metrics import metrics
from tasks.train.row_tables import shard, unshard
from tasks.train.settings import Recipe, Segment, Settings
from tasks.train.startup import prepare
from tasks.train.step_sizes import refuse_step_sizes, rows_of
from tasks.train.training import Training, hooks_of, report_failed_saves, save_model, save_trace, summary_of
from tasks.train.trial import try_own_code
from tasks.train.warm_start import shorten
from tasks.train.watchdog import watch_itself


def run(ctx: StageContext, ranks: Ranks | None = None) -> Finished:
    """Train, or resume from the newest checkpoint. Raises Preempted on a notice to stop, after saving the state.

    ranks: the processes of this training, where this is one of several.
    """
    if ranks is None and (count := ranks_of(ctx)) > 1:
        return launch(ctx, count)
    made = train_model(ctx, summaries.features(ctx.upstream("features")), fitted="fitted", ranks=ranks)
    return Finished(content=made.summary.digest, summary=made.summary, metrics=made.metrics)


def ranks_of(ctx: StageContext) -> int:
    """The processes of a training. One that is repeated to the bit has one, which computes the shards of all."""
    return 1 if ctx.request.segments else ctx.spec.resources["train"].ranks


def train_model(
    ctx: StageContext,
    features: FeatureSet,
    *,
    fitted: str,
    measured: TrainedModel | None = None,
    ranks: Ranks | None = None,
) -> Training:
    """Train on the days of the split of `features`, or resume; the model is then in the outputs.

    fitted: the output of the features stage with what was fitted on these days. measured: a training whose recipe is
    repeated: its batch size, and as many epochs of each part. Raises Preempted on a notice to stop, after saving, and
    RankDone on all ranks but the first.
    """
    if ctx.spec.train.model.is_boosted:
        from tasks.train.boosted_stage import train_trees  # late: it imports LightGBM, which networks do not need

        return train_trees(ctx, features, fitted=fitted, measured=measured)
    resources, ours = ctx.spec.resources["train"], ranks or Ranks()
    refuse_step_sizes(ctx.spec, features)
    device = prepare(seed=ctx.spec.train.seed, cpus=resources.cpus / ours.size, gpus=resources.gpus)
    state = FittedState.from_bytes(read_bytes(ctx.store, ctx.upstream("features").outputs[fitted]))
    description = describe(ctx.spec, ctx.folder, features, state)
    loss, mass = load_loss(description.objective, description.architecture.kind, ctx.folder)
    weighted, grouped = bool(ctx.spec.with_role("weight")), ctx.spec.group is not None
    precision = resolve(ctx.spec.train.precision, device)
    try_own_code(
        description,
        ctx.folder,
        device,
        loss=loss,
        mass=mass,
        weighted=weighted,
        grouped=grouped,
        precision=precision,
    )
    network = fit(Network(description, custom_body(description, ctx.folder)), state)
    begun = begin_with_parent(ctx, network, description)
    _shard(ctx, network, ours)
    with ctx.phase("read"):
        both = _read(ctx, network, features, state, ours)
        train, valid = both.split(rows_of(features, "train"))
        network.preprocess.flagged.copy_(missing(train))
        del state  # statistics of every day, which only the reading needs
    settings = _settings(ctx, features, len(train), measured, device)
    if begun is not None and begun.is_close:
        settings = shorten(settings, epochs=begun.parent.epochs, rows=len(both))
    folder = StoreCheckpointFolder(ctx.store, ctx.request, ctx.disk, names_training=ours.is_first)
    checkpointer = Checkpointer(folder, keep=ctx.spec.train.checkpoint.keep, warn=ctx.log.warning)
    with (
        ctx.phase("train"),
        closing(checkpointer),  # also after an error: the save in progress is finished
        nullcontext() if ranks else watch_itself(ours.heartbeat, ctx.spec.train.watchdog, ctx.log),
        convert_memory_errors(settings.batch_size, settings.accumulation),
        locate_errors(ctx.folder, ctx.spec.train.model.kind),
        convert_endings(description, network, features, both, precision=settings.precision),
    ):
        loop = Loop(
            network.to(device),
            settings,
            train=train,
            valid=valid if len(valid) else None,
            both=both,
            loss=loss,
            mass=mass,
            checkpointer=checkpointer,
            hooks=replace(hooks_of(ctx, network, folder), measured=lambda measured: say(ctx, measured)),
            ranks=ours,
        )
        trace = ctx.disk / "profile-trace.json.gz"
        with Profiler(loop, trace) if ctx.spec.train.profile and ours.is_first else nullcontext() as profiler:
            result = loop.run()
        del loop  # and with it what the model does not need: moments, a copy of what was saved last
        unshard(network)
        ours.heartbeat.end()
    ours.leave_if_not_first()
    if profiler is not None:
        _save_profile(ctx, profiler.profile, trace)
    report_failed_saves(ctx, checkpointer)
    save_trace(ctx, result)
    digest, parameters = save_model(ctx, description, network), sum(each.numel() for each in network.parameters())
    summary = summary_of(digest, features, settings, result, parameters=parameters, rows=len(train))
    summary = summary.model_copy(update={"warm_start": begun, "measurement": record(ctx, device, result.measured)})
    return Training(
        network=network,
        settings=settings,
        loss=loss,
        mass=mass,
        summary=summary,
        metrics=metrics(result, len(train), checkpointer),
    )


def _shard(ctx: StageContext, network: Network, ranks: Ranks) -> None:
    """Keep this rank's rows of large tables, where the pipeline asks for it."""
    least = optimizer.LARGE
    if ctx.spec.train.tables == "sharded" and not shard(network, ranks, smallest=least):
        message = f"train.tables: sharded has no effect: no table of vectors of categories has {least:,} rows"
        ctx.log.warning(message)


def _read(ctx: StageContext, network: Network, features: FeatureSet, state: FittedState, ranks: Ranks) -> Rows:
    parts = partial(read, ctx, network, features, *parts_of(ctx.spec, features.split), of_days=state.of_days)
    return read_once(ranks, lambda build: parts(in_memory=build, alive=ranks.heartbeat.start))


def _settings(
    ctx: StageContext, features: FeatureSet, rows: int, measured: TrainedModel | None, device: torch.device
) -> Settings:
    train, (accumulation, measure) = ctx.spec.train, beginning(ctx, device)
    learning_rate, weight_decay = train.rates
    batch_size = auto_batch_size(rows) if train.batch_size == "auto" else train.batch_size
    if measured is not None:
        batch_size = measured.batch_size
    precision = resolve(train.precision, device)
    if precision != FP32:
        ctx.log.event("precision", f"layers multiply in {precision} while they train", precision=precision)
    if accumulation > 1:
        ctx.log.event(
            "accumulation",
            f"a step of {batch_size:,} rows is computed in {accumulation} micro-batches, "
            + (f"as measured on {ctx.request.measured_on}" if ctx.request.measured_on else "to need less memory"),
            batch_size=batch_size,
            accumulation=accumulation,
        )
    return Settings(
        objective=train.objective,
        steps=train.steps,
        epochs=train.epochs,
        evaluations=train.evaluations,
        batch_size=batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        seed=train.seed,
        patience=train.patience,
        checkpoint_every_s=train.checkpoint.every,
        checkpoint_steps=train.checkpoint.steps,
        lower_is_better=lower_is_better(ctx.spec.metric),
        accumulation=accumulation,
        shards=None if train.shards == "auto" else train.shards,
        recipe=Recipe(level=measured.level, fall=measured.fall) if measured else None,
        segments=tuple(Segment(**each.model_dump()) for each in ctx.request.segments),
        sampling=sampling_of(ctx.spec, features),
        precision=precision,
        ema=train.ema,
        recompute=train.recompute,
        optimizer=train.optimizer,
        measure=measure,
    )


def _save_profile(ctx: StageContext, profile: Profile | None, trace: Path) -> None:
    """Add the page and the trace to the outputs, and say what training waits for."""
    if profile is None:
        message = f"train.profile: training ended within {WARM_UP + TRACED} steps, so there is no profile"
        ctx.log.warning(message)
        return
    made = ctx.transaction.add_bytes("profile.html", page(ctx.request, profile).encode())
    ctx.transaction.add("profile-trace.json.gz", trace)
    ctx.log.event("profile", f"{answer(profile)} The page is {ctx.store.uri}/{made.key}", shares=profile.shares)
