"""The training loop: read, forward, loss, backward, step, log, save; and after each epoch validate and decide.

A change here violates the promise of the project when a resumed run ends with other bits than an uninterrupted one (on
a CPU), or a state with a loss that is not finite is saved.
"""

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ratchet.model.networks import Network
from tasks.train.checkpoint import Checkpoints, Saved, optimizer_tensors, restore_optimizer
from tasks.train.computation import Computation
from tasks.train.data import Reader, Rows
from tasks.train.losses import Loss, Mass
from tasks.train.settings import Settings

_LOG_EVERY_S = 1.0
_WARM_UP = 0.05
_LOWEST_RATE = 0.1


class NotFinite(ArithmeticError):
    """The loss is no number any more."""


class Stopped(Exception):
    """The loop was told to stop, and has saved its state."""


@dataclass(kw_only=True)
class EpochDone:
    """A line of the history; see contracts.documents.Epoch."""

    epoch: int
    loss: float
    valid_loss: float | None
    valid_metric: float | None
    seconds: float
    samples_per_sec: float


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What the loop tells and asks.

    progress: (message, steps done, steps in all, fields); the fields are epoch, epochs, step and steps (of the epoch),
    loss, samples_per_sec and eta (seconds), and at an epoch's end the rest of its line of the history. stopping: told
    to stop? metric: the valid metric of (rows, finished scores), None where it has no value. finish: from raw outputs
    to what the metric is measured on.
    """

    progress: Callable[[str, int, int, dict[str, float]], None]
    stopping: Callable[[], bool]
    metric: Callable[[Rows, Tensor], float | None]
    finish: Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """How it ended; the network carries the best epoch's weights.

    resumed_from: the step that this attempt went on from, if any. loading: mean seconds of waiting for a batch.
    """

    history: tuple[EpochDone, ...]
    best_epoch: int
    resumed_from: int | None
    loading: float


class _AdamW(torch.optim.AdamW):
    """torch's own, without what it wraps these methods in to keep its compiler away: that loads it, over a second."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
    zero_grad = inspect.unwrap(torch.optim.AdamW.zero_grad)
    add_param_group = inspect.unwrap(torch.optim.AdamW.add_param_group)
    state_dict = inspect.unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.AdamW.load_state_dict)


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
        checkpoints: Checkpoints,
        hooks: Hooks,
    ) -> None:
        self._network = network
        self._settings = settings
        self._valid = valid
        self._computation = Computation(network, settings, loss=loss, mass=mass)
        self._checkpoints = checkpoints
        self._hooks = hooks
        self._rows = len(train)
        self._reader = Reader(train, batch_size=settings.batch_size, seed=settings.seed)
        self._steps = len(self._reader.epoch(1))
        self._device = next(network.parameters()).device
        self._optimizer = _AdamW(
            network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        self._epoch, self._step = 1, 0  # the epoch under way, and its steps that are done
        self._epoch_loss, self._epoch_seconds = 0.0, 0.0
        self._history: list[EpochDone] = []
        self._best: dict[str, Tensor] = {}
        self._best_epoch = 0
        self._unchecked: list[Tensor] = []
        self._loading, self._loads = 0.0, 0

    def run(self) -> Trained:
        """Train. Raises NotFinite with epoch and step, Stopped when told to (the state is saved then)."""
        resumed_from = self._resume()
        while self._epoch <= self._settings.epochs and not self._is_over():
            self._train_epoch()
            self._end_epoch()
        self._checkpoints.close()
        self._network.load_state_dict(self._best)
        return Trained(
            history=tuple(self._history),
            best_epoch=self._best_epoch,
            resumed_from=resumed_from,
            loading=self._loading / max(self._loads, 1),
        )

    def _train_epoch(self) -> None:
        settings = self._settings
        batches = self._reader.epoch(self._epoch)
        self._network.train()
        saved = logged = begin = time.monotonic()
        while self._step < self._steps:
            waited = time.perf_counter()
            rows = self._reader.read(batches[self._step])
            self._loading += time.perf_counter() - waited
            self._loads += 1
            self._set_rate()
            self._optimizer.zero_grad(set_to_none=True)
            self._unchecked.append(self._computation.add_gradients(rows))
            self._optimizer.step()
            self._step += 1
            now = time.monotonic()
            if now - logged >= _LOG_EVERY_S:
                logged = now
                self._check()
                self._say(self._epoch_seconds + now - begin)
            stopping = self._hooks.stopping() and self._step < self._steps  # the epoch's end saves anyway
            if stopping or (now - saved >= settings.checkpoint_every_s and self._step < self._steps):
                saved = now
                self._check()
                self._epoch_seconds += now - begin
                begin = now
                self._save()
            if stopping:
                self._checkpoints.close()
                raise Stopped
        self._check()
        self._epoch_seconds += time.monotonic() - begin

    def _end_epoch(self) -> None:
        """Validate, remember the best, save, and go on to the next epoch."""
        valid_loss, metric = self._validate()
        done = EpochDone(
            epoch=self._epoch,
            loss=self._epoch_loss / self._steps,
            valid_loss=valid_loss,
            valid_metric=metric,
            seconds=round(self._epoch_seconds, 4),
            samples_per_sec=round(self._rows / max(self._epoch_seconds, 1e-9), 1),
        )
        if not self._best or self._is_better(done):
            self._best_epoch = self._epoch
            self._best = {name: tensor.detach().clone() for name, tensor in self._network.state_dict().items()}
        self._history.append(done)
        self._epoch += 1
        self._step, self._epoch_loss, self._epoch_seconds = 0, 0.0, 0.0
        self._save()
        left = (self._settings.epochs - done.epoch) * done.seconds
        fields: dict[str, float] = {"step": self._steps, **self._scale, "eta": left}
        fields |= {key: value for key, value in asdict(done).items() if value is not None}
        shown = f", valid metric {metric:.4f}" if metric is not None else ""
        message = f"epoch {done.epoch}/{self._settings.epochs}: loss {done.loss:.4f}{shown}"
        self._hooks.progress(message, (self._epoch - 1) * self._steps, self._total, fields)

    @property
    def _total(self) -> int:
        return self._settings.epochs * self._steps

    @property
    def _scale(self) -> dict[str, float]:
        return {"epochs": self._settings.epochs, "steps": self._steps}

    def _validate(self) -> tuple[float | None, float | None]:
        if self._valid is None:
            return None, None
        self._network.eval()
        with torch.inference_mode():
            raw = self._computation.scores(self._valid)
            loss = float(self._computation.loss(raw, self._valid))
            return loss, self._hooks.metric(self._valid, self._hooks.finish(raw))

    def _is_better(self, done: EpochDone) -> bool:
        """Without a valid metric the last epoch is the best."""
        best = next(line for line in self._history if line.epoch == self._best_epoch).valid_metric
        if done.valid_metric is None or best is None:
            return done.valid_metric is not None or best is None
        lower = self._settings.lower_is_better
        return done.valid_metric < best if lower else done.valid_metric > best

    def _is_over(self) -> bool:
        """Whether `patience` epochs have gone by without a better one."""
        measured = self._valid is not None and any(line.valid_metric is not None for line in self._history)
        return measured and len(self._history) - self._best_epoch >= self._settings.patience

    def _set_rate(self) -> None:
        """Up in the first twentieth of all steps, then down in a line to a tenth: a function of the step alone."""
        done = (self._epoch - 1) * self._steps + self._step
        warm = max(1, math.ceil(self._total * _WARM_UP))
        left = 1 - (done - warm) / max(1, self._total - warm)
        factor = (done + 1) / warm if done < warm else _LOWEST_RATE + (1 - _LOWEST_RATE) * left
        for group in self._optimizer.param_groups:
            group["lr"] = self._settings.learning_rate * factor

    def _check(self) -> None:
        """Add up the losses since the last check. Raises NotFinite, naming the first step with a bad loss or weight."""
        if not self._unchecked:
            return
        losses = torch.stack(self._unchecked).double().cpu()
        self._unchecked.clear()
        good = torch.isfinite(losses)
        if not bool(good.all()):
            step = self._step - len(losses) + int((~good).nonzero()[0]) + 1
            raise NotFinite(
                f"the loss is {float(losses[~good][0])} at epoch {self._epoch}, step {step} of {self._steps}"
            )
        weights = torch.stack([parameter.detach().sum() for parameter in self._network.parameters()])
        if not bool(torch.isfinite(weights).all()):  # a finite loss can have a gradient that is not
            raise NotFinite(f"a weight is not finite after epoch {self._epoch}, step {self._step} of {self._steps}")
        for loss in losses.tolist():  # one by one: the sum must not depend on when it was checked
            self._epoch_loss += loss

    def _say(self, seconds: float) -> None:
        done = (self._epoch - 1) * self._steps + self._step
        rate = self._rows * self._step / self._steps / max(seconds, 1e-9)
        loss = self._epoch_loss / max(self._step, 1)
        eta = (self._total - done) * seconds / max(self._step, 1)
        message = f"epoch {self._epoch}/{self._settings.epochs}: loss {loss:.4f}, {rate:,.0f} rows/s, {eta:.0f} s left"
        fields = {"epoch": self._epoch, "step": self._step, **self._scale}
        self._hooks.progress(message, done, self._total, {**fields, "loss": loss, "samples_per_sec": rate, "eta": eta})

    def _save(self) -> None:
        model = {f"model.{name}": tensor for name, tensor in self._network.state_dict().items()}
        best = {f"best.{name}": tensor for name, tensor in self._best.items()}
        progress: dict[str, Any] = {
            "epoch": self._epoch,
            "step": self._step,
            "epoch_loss": self._epoch_loss.hex(),
            "epoch_seconds": self._epoch_seconds,
            "history": [asdict(done) for done in self._history],
            "best_epoch": self._best_epoch,
        }
        tensors = {**model, **best, **optimizer_tensors(self._optimizer), "rng": torch.get_rng_state()}
        done = (self._epoch - 1) * self._steps + self._step
        self._checkpoints.save(Saved(step=done, progress=progress, tensors=tensors))

    def _resume(self) -> int | None:
        saved = self._checkpoints.newest()
        if saved is None:
            return None
        progress, tensors = saved.progress, saved.tensors

        def under(prefix: str) -> dict[str, Tensor]:
            named = ((name.partition(".")[::2], tensor) for name, tensor in tensors.items())
            return {rest: tensor for (first, rest), tensor in named if first == prefix}

        self._network.load_state_dict(under("model"))
        self._best = {name: tensor.to(self._device) for name, tensor in under("best").items()}
        restore_optimizer(self._optimizer, tensors)
        torch.set_rng_state(tensors["rng"])
        self._epoch, self._step = progress["epoch"], progress["step"]
        self._epoch_loss, self._epoch_seconds = float.fromhex(progress["epoch_loss"]), progress["epoch_seconds"]
        self._history = [EpochDone(**line) for line in progress["history"]]
        self._best_epoch = progress["best_epoch"]
        return saved.step
