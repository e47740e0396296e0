"""The training loop: read, forward and backward, update, log, save; after each epoch validate, keep the best, save.

A change here violates the promise of the project when a resumed run ends with other bits than an uninterrupted one (on
a CPU), or when a state is saved whose loss or weights are not finite.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy import float32, int64
from numpy.typing import NDArray
from torch import Tensor

from ratchet.model.networks import Network
from tasks.train.checkpoint import Checkpoint, Checkpointer
from tasks.train.computation import Computation
from tasks.train.data import Reader, Rows
from tasks.train.losses import Loss, Mass
from tasks.train.progress import Progress, ProgressHook
from tasks.train.schedule import learning_rate
from tasks.train.settings import Settings
from tasks.train.startup import AdamW
from tasks.train.state import EpochResult, TrainState
from tasks.train.step_losses import NotFinite, StepLosses
from tasks.train.timing import Interval, Stopwatch

_LOG_EVERY_S = 1.0
_LARGEST_GRADIENT = 5.0
"""Norm to which a larger gradient is scaled down (Pascanu et al. 2013). Those of standardised columns and labels are
below 2; wild rows of many columns have norms of thousands, and AdamW would remember them for a thousand steps."""


class StopTraining(Exception):
    """The loop received a notice to stop, and has saved its state."""


class SaveFailed(Exception):
    """The loop received a notice to stop, and could not save its state; the cause is the error of the save."""


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the loop calls.

    progress: receives the progress lines. warn: receives warnings. stopping: returns whether there is a notice to stop.
    metric: the valid metric of (rows, final scores), None where it has no value. finish: turns raw outputs into final
    scores.
    """

    progress: ProgressHook
    warn: Callable[[str], None]
    stopping: Callable[[], bool]
    metric: Callable[[Rows, Tensor], float | None]
    finish: Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """The result of a training; the network holds the weights of the best epoch.

    resumed_from: the step at which this attempt resumed, if any. loading: mean seconds to read a batch. trace: float32
    [steps, 2], the loss of each step and the norm of its gradient; NaN where a checkpoint of before has none.
    """

    history: tuple[EpochResult, ...]
    best_epoch: int
    resumed_from: int | None
    loading: float
    trace: NDArray[float32]


class Loop:
    """One training. `run` takes it to its end, from its newest checkpoint if there is one."""

    def __init__(
        self,
        network: Network,
        settings: Settings,
        *,
        train: Rows,
        valid: Rows | None,
        loss: Loss,
        mass: Mass,
        checkpointer: Checkpointer,
        hooks: Hooks,
    ) -> None:
        self._network, self._settings = network, settings
        self._valid, self._rows = valid, len(train)
        self._checkpointer, self._hooks = checkpointer, hooks
        self._computation = Computation(network, settings, loss=loss, mass=mass)
        self._reader = Reader(train, batch_size=settings.batch_size, seed=settings.seed)
        self._steps = self._reader.steps
        self._optimizer = AdamW(
            network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        self._state = TrainState(network=network, optimizer=self._optimizer, steps_per_epoch=self._steps)
        self._epochs = settings.last_epoch or settings.epochs
        self._progress = Progress(hooks.progress, epochs=self._epochs, steps=self._steps, rows=self._rows)
        self._losses = StepLosses(self._reader)
        self._read_seconds, self._reads = 0.0, 0

    def run(self) -> TrainResult:
        """Train. Raises NotFinite, and on a notice to stop StopTraining or SaveFailed."""
        resumed_from = self._resume()
        while not self._is_over():
            self._train_epoch()
            result = self._validate()
            self._state.finish_epoch(result, lower_is_better=self._settings.lower_is_better)
            self._save()
            self._progress.log_epoch(result)
        self._checkpointer.close()
        self._state.load_best()
        return TrainResult(
            history=tuple(self._state.history),
            best_epoch=self._state.best_epoch,
            resumed_from=resumed_from,
            loading=self._read_seconds / max(self._reads, 1),
            trace=np.array(self._state.trace, np.float32).reshape(-1, 2),
        )

    def _train_epoch(self) -> None:
        """Take the remaining steps of the epoch."""
        state = self._state
        batches = self._reader.epoch(state.epoch)
        self._network.train()
        watch, log, save = Stopwatch(), Interval(_LOG_EVERY_S), Interval(self._settings.checkpoint_every_s)
        while state.step < self._steps:
            self._take_step(batches[state.step])
            state.step += 1
            state.epoch_seconds += watch.lap()
            if log.is_due():
                self._flush_losses()
                self._progress.log_step(state)
            stop = self._hooks.stopping()
            if state.step < self._steps and (stop or save.is_due()):  # the end of the epoch saves anyway
                self._flush_losses()
                self._save()
                if stop:
                    self._stop()
        self._flush_losses()
        state.epoch_seconds += watch.lap()

    def _take_step(self, batch: NDArray[int64]) -> None:
        rows = self._read(batch)
        self._set_learning_rate()
        self._optimizer.zero_grad(set_to_none=True)
        result = self._computation.add_gradients(rows)
        norm = torch.nn.utils.clip_grad_norm_(self._network.parameters(), _LARGEST_GRADIENT)
        self._losses.add(result, norm, batch)
        self._optimizer.step()

    def _stop(self) -> None:
        """End after the save in progress. Raises StopTraining if it succeeds, otherwise SaveFailed."""
        error = self._checkpointer.close()
        if error is None:
            raise StopTraining
        newest = self._checkpointer.newest_step
        left = "there is no earlier checkpoint" if newest is None else f"the newest checkpoint is that of step {newest}"
        raise SaveFailed(f"the state of step {self._state.global_step} could not be saved: {error}; {left}") from error

    def _read(self, batch: NDArray[int64]) -> Rows:
        begin = time.perf_counter()
        rows = self._reader.read(batch)
        self._read_seconds += time.perf_counter() - begin
        self._reads += 1
        return rows

    def _set_learning_rate(self) -> None:
        total = self._settings.epochs * self._steps
        rate = learning_rate(self._state.global_step, total=total, peak=self._settings.learning_rate)
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def _flush_losses(self) -> None:
        """Add the losses since the last flush to the epoch's. Raises NotFinite, naming the first bad step."""
        self._losses.flush(self._state, self._network.parameters())

    def _validate(self) -> EpochResult:
        """The result of the epoch whose steps are complete."""
        state = self._state
        loss, metric = (None, None) if self._valid is None else self._measure(self._valid)
        return EpochResult(
            epoch=state.epoch,
            loss=state.mean_loss,
            valid_loss=loss,
            valid_metric=metric,
            seconds=round(state.epoch_seconds, 4),
            samples_per_sec=round(self._rows / max(state.epoch_seconds, 1e-9), 1),
        )

    def _measure(self, valid: Rows) -> tuple[float | None, float | None]:
        """(loss, metric) on the validation rows; None where one is not finite. Raises NotFinite for their scores."""
        self._network.eval()
        with torch.inference_mode():
            raw = self._computation.scores(valid)
            self._check_scores(raw)
            loss: float | None = float(self._computation.loss(raw, valid))
            metric = self._hooks.metric(valid, self._hooks.finish(raw))
        if metric is None and self._state.epoch == 1:
            self._hooks.warn(
                f"the validation metric has no value on the {len(valid):,} validation rows, as where all labels are the"
                " same: early stopping is off, and the model of the last epoch is kept"
            )
        return self._finite("loss", loss), self._finite("metric", metric)

    def _check_scores(self, raw: Tensor) -> None:
        bad = (~torch.isfinite(raw.reshape(len(raw), -1))).any(1)
        if bool(bad.any()):
            rows = bad.nonzero().flatten().cpu().numpy()
            raise NotFinite(
                f"the scores of {len(rows):,} of {len(raw):,} validation rows are not finite after epoch"
                f" {self._state.epoch}",
                rows=rows,
                in_validation=True,
            )

    def _finite(self, name: str, value: float | None) -> float | None:
        """The value, or None and a warning if it is not finite."""
        if value is None or math.isfinite(value):
            return value
        self._hooks.warn(f"the validation {name} of epoch {self._state.epoch} is {value}, and does not count")
        return None

    def _is_over(self) -> bool:
        """Whether all epochs are complete, or `patience` epochs have passed without a better one."""
        state, settings = self._state, self._settings
        return state.epoch > self._epochs or state.epochs_since_best >= settings.patience

    def _save(self) -> None:
        self._checkpointer.save(Checkpoint(step=self._state.global_step, state=self._state.state_dict()))

    def _resume(self) -> int | None:
        """Restore the newest checkpoint. Returns its step, or None without a checkpoint."""
        checkpoint = self._checkpointer.newest()
        if checkpoint is None:
            return None
        self._state.load_state_dict(checkpoint.state)
        return checkpoint.step
