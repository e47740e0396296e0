"""train, for boosted trees: adapts the stage contract to `boosting`, as stage does for networks.

A change here violates the promise of the project when trees are judged, saved or resumed by other rules than networks.
"""

from contextlib import closing

from lightgbm.basic import LightGBMError

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.gate import lower_is_better
from ratchet.contracts.kinds import most_rounds
from ratchet.contracts.quantities import show_memory
from ratchet.contracts.step_rows import CHUNK_ROWS
from ratchet.contracts.summaries import FeatureSet, TrainedModel
from ratchet.model.boosted import Boosted
from ratchet.model.fitted_state import FittedState
from ratchet.runtime.context import StageContext
from ratchet.runtime.user_code import lacks_memory
from ratchet.store.artifacts import read_bytes
from ratchet.store.checkpoint_folder import StoreCheckpointFolder
from tasks.train.boosting import Boosting
from tasks.train.building import describe, fit
from tasks.train.checkpoint import Checkpointer
from tasks.train.custom_code import load_loss
from tasks.train.data import Rows
from tasks.train.days import read
from tasks.train.days_in_order import parts_of
from tasks.train.endings import convert_endings
from tasks.train.heartbeat import Heartbeat
from tasks.train.result_metrics import metrics
from tasks.train.settings import Recipe, Settings
from tasks.train.startup import prepare
from tasks.train.step_sizes import rows_of
from tasks.train.training import Training, hooks_of, report_failed_saves, save_model, save_trace, summary_of
from tasks.train.trees import TreeSettings, needed_bytes
from tasks.train.vitals import resident_bytes
from tasks.train.watchdog import watch_itself


def train_trees(ctx: StageContext, features: FeatureSet, *, fitted: str, measured: TrainedModel | None) -> Training:
    """Train on the days of the split of `features`, or resume; see stage.train_model."""
    train, resources = ctx.spec.train, ctx.spec.resources["train"]
    prepare(seed=train.seed, cpus=resources.cpus, gpus=0)
    state = FittedState.from_bytes(read_bytes(ctx.store, ctx.upstream("features").outputs[fitted]))
    description = describe(ctx.spec, ctx.folder, features, state)
    model = fit(Boosted(description), state)
    with ctx.phase("read"):
        both = read(ctx, model, features, *parts_of(ctx.spec, features.split), of_days=state.of_days)
        first, valid = both.split(rows_of(features, "train"))
        del state  # statistics of every day, which only the reading needs
    settings = _settings(ctx, measured)
    shape = TreeSettings(
        objective=train.objective,
        classes=description.classes,
        leaves=train.model.leaves,
        rate=train.model.rate,
        min_rows=train.model.min_rows,
        unmeasured=most_rounds(train.model.rounds, measured=False),
        seed=train.seed,
        threads=max(1, round(resources.cpus)),
    )
    _refuse_memory(ctx, model, shape, both)
    folder, heartbeat = StoreCheckpointFolder(ctx.store, ctx.request, ctx.disk), Heartbeat()
    checkpointer = Checkpointer(folder, keep=train.checkpoint.keep, warn=ctx.log.warning)
    with (
        ctx.phase("train"),
        closing(checkpointer),
        watch_itself(heartbeat, train.watchdog, ctx.log),
        convert_endings(description, model, features, both),
    ):
        boosting = Boosting(
            model,
            settings,
            shape,
            train=first,
            valid=valid if len(valid) else None,
            both=both,
            checkpointer=checkpointer,
            hooks=hooks_of(ctx, model, folder),
            alive=heartbeat.step,
        )
        try:
            result = boosting.run()
        except Exception as error:
            if not lacks_memory(error) and not (isinstance(error, LightGBMError) and "bad_alloc" in str(error)):
                raise
            raise _too_little(ctx, f"train ran out of memory with {len(both):,} rows") from error
        heartbeat.end()
    report_failed_saves(ctx, checkpointer)
    save_trace(ctx, result)
    digest, leaves = save_model(ctx, description, model), model.body.leaves
    summary = summary_of(digest, features, settings, result, parameters=leaves, rows=len(first))
    summary = summary.model_copy(update={"batch_size": len(first), "trees": len(result.trace)})
    loss, mass = load_loss(train.objective, train.model.kind, ctx.folder)
    return Training(
        network=model,
        settings=settings,
        loss=loss,
        mass=mass,
        summary=summary,
        metrics=metrics(result, len(first), checkpointer),
    )


def _settings(ctx: StageContext, measured: TrainedModel | None) -> Settings:
    """A step is a round, which reads all rows; rows are scored in chunks."""
    train = ctx.spec.train
    rounds = most_rounds(train.model.rounds, measured=True)
    return Settings(
        objective=train.objective,
        steps=rounds,
        epochs=rounds,
        evaluations=1,
        batch_size=CHUNK_ROWS,
        learning_rate=train.model.rate,
        weight_decay=0.0,
        seed=train.seed,
        patience=train.patience,
        checkpoint_every_s=train.checkpoint.every,
        checkpoint_steps=train.checkpoint.steps,
        lower_is_better=lower_is_better(ctx.spec.metric),
        recipe=Recipe(level=measured.level, fall=measured.fall) if measured else None,
    )


def _refuse_memory(ctx: StageContext, model: Boosted, shape: TreeSettings, rows: Rows) -> None:
    """Raise ConfigurationError where LightGBM would not fit beside what this process has; it would be killed."""
    held, needed = resident_bytes(), needed_bytes(model, shape, len(rows))
    if held + needed > ctx.spec.resources["train"].memory:
        cause = (
            f"{len(rows):,} rows need {show_memory(needed)} in lightgbm, beside {show_memory(held)} that train holds"
        )
        raise _too_little(ctx, cause)


def _too_little(ctx: StageContext, cause: str) -> ConfigurationError:
    return ConfigurationError(
        f"resources.train.memory is {show_memory(ctx.spec.resources['train'].memory)}, and {cause}",
        remedy="raise it, lower train.model.leaves, raise train.model.min_count, or shorten source.window_days",
    )
