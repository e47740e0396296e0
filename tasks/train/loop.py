"""The training loop: read, forward and backward, update, log, save; several times an epoch validate, keep the best.

A change here violates the promise of the project when a resumed run ends with other bits than an uninterrupted one (on
a CPU), or when a state is saved whose loss or weights are not finite.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy import float32, int64
from numpy.typing import NDArray

from ratchet.model.networks import Network
from tasks.train.averaging import Average
from tasks.train.checkpoint import Checkpointer
from tasks.train.computation import Computation
from tasks.train.data import Reader, Rows
from tasks.train.hooks import Hooks
from tasks.train.losses import Loss, Mass
from tasks.train.optimizer import Optimizers
from tasks.train.passes import Passes
from tasks.train.precision import Precision
from tasks.train.probe import Measured, Probe
from tasks.train.progress import Progress
from tasks.train.ranks import Ranks
from tasks.train.recompute import recompute
from tasks.train.row_tables import fetch, row_tables
from tasks.train.schedule import Fall, early_fall, learning_rate, planned_fall, warm_up
from tasks.train.segments import Segments
from tasks.train.settings import Recipe, Segment, Settings
from tasks.train.shards import Batch, Shards, SharedStep
from tasks.train.state import EvaluationResult, TrainState, read_newest
from tasks.train.step_losses import StepLosses
from tasks.train.stopping import end_after_save
from tasks.train.timing import Interval, Stopwatch
from tasks.train.validation import Validation
from tasks.train.vitals import Vitals

_LOG_EVERY_S = 1.0
_STEPS_OF_EVALUATION = 20
"""Steps between two evaluations, at least."""
_LARGEST_GRADIENT = 5.0
"""Norm to which a larger gradient is scaled down (Pascanu et al. 2013). Those of standardised columns and labels are
below 2; wild rows of many columns have norms of thousands, and AdamW would remember them for a thousand steps."""


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """The result of a training; the network holds the last weights, or their average if it is asked for.

    best: the number of the best evaluation, from 1. recipe: to repeat the training. resumed_from: the step at which
    this attempt resumed, if any. loading: mean seconds to read a batch. trace: float32 [steps, 2], the loss of each
    step and the norm of its gradient. segments: how the steps were computed. skipped: steps whose gradient was too
    large for fp16, and that changed no weight. measured: how its micro-batches were chosen, if they were.
    """

    history: tuple[EvaluationResult, ...]
    best: int
    recipe: Recipe
    resumed_from: int | None
    loading: float
    trace: NDArray[float32]
    segments: tuple[Segment, ...]
    skipped: int
    measured: Measured | None = None


class Loop:
    """One training. `run` takes it to its end, from its newest checkpoint if there is one.

    valid: rows for validation, or None. both: the rows for training and then those. ranks: the processes of the
    training, this one alone by default; all are given the same.
    """

    def __init__(
        self,
        network: Network,
        settings: Settings,
        *,
        train: Rows,
        valid: Rows | None,
        both: Rows,
        loss: Loss,
        mass: Mass,
        checkpointer: Checkpointer,
        hooks: Hooks,
        ranks: Ranks | None = None,
    ) -> None:
        self._network, self._settings = network, settings
        self._checkpointer, self._hooks, self._ranks = checkpointer, hooks, ranks or Ranks()
        self._precision = Precision(settings.precision)
        if settings.recompute and not recompute(network.body):
            hooks.warn("train.recompute has no effect: the model has no layers whose activations could be left out")
        self._precision.apply_to(network.body, network.device.type)
        self._computation = Computation(network, settings, loss=loss, mass=mass, precision=self._precision)
        self._passes = Passes(train, both, settings, device=self._computation.device)
        self._epoch_steps = self._passes.level.steps
        self._longest = planned_fall(
            steps=settings.steps,
            epochs=settings.epochs,
            level_epoch=self._epoch_steps,
            fall_epoch=self._passes.falling.steps,
        )
        self._planned = self._planned_fall()
        rate, decay = settings.learning_rate, settings.weight_decay
        self._optimizer = Optimizers(network, learning_rate=rate, weight_decay=decay, kind=settings.optimizer)
        self._computation.record_steps(
            self._optimizer, largest=_LARGEST_GRADIENT, apart=lambda: checkpointer.is_copying, warn=hooks.warn
        )
        self._average = Average(self._optimizer.layers, self._optimizer.tables, decay=settings.ema)
        self._state = TrainState(
            network=network,
            optimizer=self._optimizer,
            fall=self._planned,
            loss_scale=self._precision.loss_scale,
            average=self._average,
        )
        self._shards = Shards(network, self._computation, self._ranks, count=settings.shards, seed=settings.seed)
        self._segments = Segments(self._state, self._computation, self._shards, settings.segments, warn=hooks.warn)
        self._validation = Validation(network, valid, self._shards, self._computation, hooks, before=len(train))
        self._progress = Progress(hooks.progress)
        self._losses = StepLosses()
        self._log_due, self._save_due = Interval(_LOG_EVERY_S), Interval(settings.checkpoint_every_s)
        self._vitals = Vitals(self._optimizer, checkpointer, self._computation.device)
        self._saved_step, self._to_save = 0, False
        self._is_sharded = bool(row_tables(network))
        if self._is_sharded:
            checkpointer.share(self._ranks)

    def run(self) -> TrainResult:
        """Train. Raises NotFinite, and on a notice to stop StopTraining or SaveFailed.

        With several ranks RankLost, too, and on a notice RankDone on those that are not the first.
        """
        resumed_from = self._resume()
        state = self._state
        measured = self._measure()
        self._segments.begin()
        self._hooks.begun(resumed_from, tuple(state.segments))
        while not state.is_complete:
            self._train_until(self._next_evaluation())
            with self._average.shown():
                result = self._evaluate()
                state.finish_evaluation(result, lower_is_better=self._settings.lower_is_better)
            self._fall_on_a_plateau()
            if state.is_complete or self._to_save or self._passes.position(state.step, state.fall).step == 0:
                self._save()
            self._progress.log_evaluation(result, state, self._vitals.fields(state))
        self._checkpointer.close()
        self._computation.graphs = self._computation.graph = None  # their memory is for others now
        self._average.keep()
        return TrainResult(
            history=tuple(state.history),
            best=state.best,
            recipe=self._recipe(),
            resumed_from=resumed_from,
            loading=self._vitals.loading,
            trace=np.array(state.trace, np.float32).reshape(-1, 2),
            segments=tuple(segment for segment in state.segments if segment.begin < state.step),
            skipped=state.loss_scale.skipped,
            measured=measured,
        )

    def _measure(self) -> Measured | None:
        """Choose the micro-batches, unless the steps before were computed on such a device."""
        by, segments = self._settings.measure, self._state.segments
        if by is None or (segments and segments[-1].device == self._computation.device.type):
            return None
        reader = self._passes.level
        rows = reader.read(reader.longest(self._settings.batch_size // self._shards.count))
        fetch(self._network, rows.places)
        measured = Probe(self._network, self._computation, self._ranks).measure(by, rows)
        self._hooks.measured(measured)
        return measured

    def _planned_fall(self) -> Fall:
        """The fall if all steps are used up, or that of the training to repeat."""
        recipe = self._settings.recipe
        if recipe is None:
            return self._longest
        level = round(recipe.level * self._epoch_steps)
        return Fall(begin=level, steps=max(round(recipe.fall * self._passes.falling.steps), 1), level=level)

    def _recipe(self) -> Recipe:
        fall = self._state.fall
        return Recipe(level=fall.level / self._epoch_steps, fall=fall.steps / self._passes.falling.steps)

    def _next_evaluation(self) -> int:
        """The completed steps at the next evaluation; during the warm-up there is none."""
        state = self._state
        count = max(1, min(self._settings.evaluations, self._epoch_steps // _STEPS_OF_EVALUATION))
        begin = max(state.step, min(warm_up(self._longest.end), state.fall.begin) - 1)
        return self._passes.next_evaluation(begin, state.fall, count)

    def _train_until(self, end: int) -> None:
        """Take steps until `end` of them are complete."""
        state = self._state
        self._network.train()
        watch = Stopwatch()
        while state.step < end:
            self._segments.repeat()
            shared = self._take_step(stop=self._hooks.stopping(), save=self._is_save_due())
            self._to_save |= shared.save
            state.step += 1
            self._ranks.heartbeat.step(state.step)
            state.seconds += watch.lap()
            if self._log_due.is_due():
                self._losses.ask(state.step, self._optimizer.layers)  # large tables would take a tenth of the time
            if self._losses.take(state):
                self._progress.log_step(state, self._vitals.fields(state))
            if state.step < end and (shared.stop or self._to_save):  # at the end the evaluation comes first
                self._flush_losses()
                self._save()
                if shared.stop:
                    self._ranks.leave_if_not_first()
                    end_after_save(self._checkpointer, f"step {state.step}")
        self._flush_losses()
        state.seconds += watch.lap()

    def _is_save_due(self) -> bool:
        """Whether the next step is to be saved, by the clock of this rank."""
        steps = self._settings.checkpoint_steps
        return self._save_due.is_due() or (steps is not None and self._state.step + 1 - self._saved_step >= steps)

    def _fall_on_a_plateau(self) -> None:
        """Begin the fall when patience has run out, or where it is planned."""
        state = self._state
        if not state.is_falling and state.evaluations_since_best >= self._settings.patience:
            best = state.history[state.best - 1].step
            epoch, most = self._passes.falling.steps, self._planned.steps
            state.begin_fall(early_fall(state.step, best=best, epoch=epoch, most=most))
        elif state.step == state.fall.begin:
            state.average.begin()

    def _take_step(self, *, stop: bool, save: bool = False) -> SharedStep:
        """Take a step. stop: whether this rank received a notice before it. save: whether it wants it saved."""
        state = self._state
        position = self._passes.position(state.step, state.fall)
        chunks = self._passes.batch(position)
        batch = Batch(
            chunks=chunks,
            read=partial(self._read, position.reader),
            ahead=lambda: self._passes.expect(state.step + 1, state.fall, self._shards.first),
        )
        rate = learning_rate(state.step, total=self._longest.end, fall=state.fall, peak=self._settings.learning_rate)
        self._optimizer.set_learning_rate(rate)
        self._optimizer.zero_grad()
        shared = self._shards.add_gradients(batch, state.step, stop=stop, save=save)
        state.rows += shared.rows
        if self._computation.graph is not None:
            self._checkpointer.wait_for_copy()
            norm, taken = self._computation.graph.end_step(), True
        else:
            norm = self._optimizer.clip(_LARGEST_GRADIENT)
            taken = self._precision.accepts(norm)
            self._checkpointer.wait_for_copy()
            if taken:
                self._average.follow(self._optimizer.step)
        self._losses.add(shared.result, norm, position.reader, chunks, taken=taken)
        return shared

    def _read(self, reader: Reader, batch: NDArray[int64]) -> Rows:
        with self._vitals.reading():
            return reader.read(batch)

    def _flush_losses(self) -> None:
        """Add up the losses since the last flush, and check all weights. Raises NotFinite, naming the bad step."""
        self._losses.flush(self._state, self._network.parameters())

    def _evaluate(self) -> EvaluationResult:
        """The result of the steps since the last evaluation."""
        state = self._state
        loss, metric = self._validation.measure(state)
        return EvaluationResult(
            step=state.step,
            epoch=round(self._passes.epochs(state.step, state.fall), 4),
            loss=state.mean_loss,
            valid_loss=loss,
            valid_metric=metric,
            seconds=round(state.seconds, 4),
            samples_per_sec=round(state.rows / max(state.seconds, 1e-9), 1),
        )

    def _save(self) -> None:
        self._saved_step, self._to_save = self._state.step, False
        if self._ranks.is_first or self._is_sharded:
            self._checkpointer.save(self._state.checkpoint())

    def _resume(self) -> int | None:
        """Restore the newest checkpoint. Returns its step, or None without a checkpoint."""
        shared = read_newest(self._checkpointer, self._state, self._ranks)
        if shared is None:
            self._ranks.share_weights(self._network, {id(table.weight) for table in row_tables(self._network)})
            self._average.restart()
            return None
        self._state.load_state_dict(shared)
        self._saved_step = self._state.step
        self._segments.resume(halved_by_itself=shared["is_own"] or self._settings.measure is not None)
        return self._state.step
