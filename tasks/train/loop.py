"""The training loop: read, forward and backward, update, log, save; after each epoch validate, keep the best, save.

A change here violates the promise of the project when a resumed run ends with other bits than an uninterrupted one (on
a CPU), or when a state is saved whose loss or weights are not finite.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from numpy import int64
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
from tasks.train.timing import Interval, Stopwatch

_LOG_EVERY_S = 1.0


class NotFinite(ArithmeticError):
    """A loss or a weight is infinite or not a number."""


class StopTraining(Exception):
    """The loop received a notice to stop, and has saved its state."""


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the loop calls.

    progress: receives the progress lines. stopping: returns whether there is a notice to stop. metric: the valid metric
    of (rows, final scores), None where it has no value. finish: turns raw outputs into final scores.
    """

    progress: ProgressHook
    stopping: Callable[[], bool]
    metric: Callable[[Rows, Tensor], float | None]
    finish: Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """The result of a training; the network holds the weights of the best epoch.

    resumed_from: the step at which this attempt resumed, if any. loading: mean seconds to read a batch.
    """

    history: tuple[EpochResult, ...]
    best_epoch: int
    resumed_from: int | None
    loading: float


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
        self._progress = Progress(hooks.progress, epochs=settings.epochs, steps=self._steps, rows=self._rows)
        self._losses: list[Tensor] = []  # of the steps since the last flush
        self._read_seconds, self._reads = 0.0, 0

    def run(self) -> TrainResult:
        """Train. Raises NotFinite with epoch and step, and StopTraining on a notice to stop."""
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
        )

    def _train_epoch(self) -> None:
        """Take the remaining steps of the epoch."""
        state = self._state
        batches = self._reader.epoch(state.epoch)
        self._network.train()
        watch, log, save = Stopwatch(), Interval(_LOG_EVERY_S), Interval(self._settings.checkpoint_every_s)
        while state.step < self._steps:
            rows = self._read(batches[state.step])
            self._set_learning_rate()
            self._optimizer.zero_grad(set_to_none=True)
            self._losses.append(self._computation.add_gradients(rows))
            self._optimizer.step()
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
                    self._checkpointer.close()
                    raise StopTraining
        self._flush_losses()
        state.epoch_seconds += watch.lap()

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
        if not self._losses:
            return
        state = self._state
        losses = torch.stack(self._losses).double().cpu()
        self._losses.clear()
        finite = torch.isfinite(losses)
        if not bool(finite.all()):
            step = state.step - len(losses) + int((~finite).nonzero()[0]) + 1
            loss = float(losses[~finite][0])
            raise NotFinite(f"the loss is {loss} at epoch {state.epoch}, step {step} of {self._steps}")
        weights = torch.stack([parameter.detach().sum() for parameter in self._network.parameters()])
        if not bool(torch.isfinite(weights).all()):  # a finite loss can have a gradient that is not
            raise NotFinite(f"a weight is not finite after epoch {state.epoch}, step {state.step} of {self._steps}")
        for loss in losses.tolist():  # one by one: the sum must not depend on the times of the flushes
            state.epoch_loss += loss

    def _validate(self) -> EpochResult:
        """The result of the epoch whose steps are complete."""
        state = self._state
        loss, metric = None, None
        if self._valid is not None:
            self._network.eval()
            with torch.inference_mode():
                raw = self._computation.scores(self._valid)
                loss = float(self._computation.loss(raw, self._valid))
                metric = self._hooks.metric(self._valid, self._hooks.finish(raw))
        return EpochResult(
            epoch=state.epoch,
            loss=state.epoch_loss / self._steps,
            valid_loss=loss,
            valid_metric=metric,
            seconds=round(state.epoch_seconds, 4),
            samples_per_sec=round(self._rows / max(state.epoch_seconds, 1e-9), 1),
        )

    def _is_over(self) -> bool:
        """Whether all epochs are complete, or `patience` epochs have passed without a better one."""
        state, settings = self._state, self._settings
        return state.epoch > settings.epochs or state.epochs_since_best >= settings.patience

    def _save(self) -> None:
        self._checkpointer.save(Checkpoint(step=self._state.global_step, state=self._state.state_dict()))

    def _resume(self) -> int | None:
        """Restore the newest checkpoint. Returns its step, or None without a checkpoint."""
        checkpoint = self._checkpointer.newest()
        if checkpoint is None:
            return None
        self._state.load_state_dict(checkpoint.state)
        return checkpoint.step
