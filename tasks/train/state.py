"""The state of a training: everything that a run needs to resume and end with the bits of an uninterrupted one.

A change here violates the promise of the project when a value that the next step depends on is not in `state_dict`, or
when a checkpoint of an earlier release cannot be loaded.
"""

import math
from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from ratchet.model.networks import Network
from tasks.train.random_states import generator_states, restore_generators


@dataclass(frozen=True, kw_only=True)
class EpochResult:
    """One line of the history; the fields are those of contracts.summaries.Epoch.

    loss: of the steps, each weighed by its mass. valid_loss, valid_metric: None without validation days, or without a
    finite value. seconds: of the training steps and their checkpoints, without validation.
    """

    epoch: int
    loss: float
    valid_loss: float | None
    valid_metric: float | None
    seconds: float
    samples_per_sec: float


@dataclass(kw_only=True, eq=False)
class TrainState:
    """Where a training is. `state_dict` and `load_state_dict` include model, optimizer, best weights and RNG.

    steps_per_epoch: a property of the data, not saved. epoch: the epoch in progress, from 1. step: its completed steps.
    epoch_loss: sum of the losses of those steps, each times its mass. epoch_mass: the sum of their masses.
    epoch_seconds: their time. best: the weights of `best_epoch`, empty before the first epoch is complete. trace: of
    each completed step of all epochs its loss and the norm of its gradient, in turn.
    """

    network: Network
    optimizer: Optimizer
    steps_per_epoch: int
    epoch: int = 1
    step: int = 0
    epoch_loss: float = 0.0
    epoch_mass: float = 0.0
    epoch_seconds: float = 0.0
    history: list[EpochResult] = field(default_factory=list)
    best_epoch: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)
    trace: "array[float]" = field(default_factory=lambda: array("f"))

    @property
    def global_step(self) -> int:
        """Completed steps of all epochs."""
        return (self.epoch - 1) * self.steps_per_epoch + self.step

    @property
    def mean_loss(self) -> float:
        """The loss of the epoch so far; 0 if nothing has counted."""
        return self.epoch_loss / self.epoch_mass if self.epoch_mass else 0.0

    @property
    def epochs_since_best(self) -> int:
        """Completed epochs after the best one; 0 while no epoch has a finite validation metric."""
        measured = any(_is_measured(result.valid_metric) for result in self.history)
        return len(self.history) - self.best_epoch if measured else 0

    def finish_epoch(self, result: EpochResult, *, lower_is_better: bool) -> None:
        """Add a result to the history, copy the weights if they are the best so far, and move to the next epoch."""
        if not self.best or self._is_best(result, lower_is_better=lower_is_better):
            self.best_epoch = self.epoch
            self.best = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        self.history.append(result)
        self.epoch += 1
        self.step, self.epoch_loss, self.epoch_mass, self.epoch_seconds = 0, 0.0, 0.0, 0.0

    def load_best(self) -> None:
        """Put the weights of the best epoch into the network."""
        self.network.load_state_dict(self.best)

    def state_dict(self) -> dict[str, Any]:
        """All fields by their stored names: tensors, and values that JSON can hold. Names and order are the format."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "epoch_loss": self.epoch_loss.hex(),
            "epoch_seconds": self.epoch_seconds,
            "history": [asdict(result) for result in self.history],
            "best_epoch": self.best_epoch,
            **{f"model.{name}": tensor for name, tensor in self.network.state_dict().items()},
            **{f"best.{name}": tensor for name, tensor in self.best.items()},
            **_optimizer_tensors(self.optimizer),
            **generator_states(),
            "epoch_mass": self.epoch_mass.hex(),
            "trace": torch.from_numpy(np.array(self.trace, np.float32)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned: also the network, the optimizer and the random generators.

        A state of before has no masses: the loss of its epoch is then that of the steps that follow.
        """
        device = next(self.network.parameters()).device
        self.network.load_state_dict(_section(state, "model"))
        self.best = {name: tensor.to(device) for name, tensor in _section(state, "best").items()}
        _load_optimizer(self.optimizer, _section(state, "optimizer"))
        restore_generators(state)
        self.epoch, self.step = state["epoch"], state["step"]
        self.epoch_seconds = state["epoch_seconds"]
        self.epoch_mass = float.fromhex(state.get("epoch_mass", "0"))
        self.epoch_loss = float.fromhex(state["epoch_loss"]) if self.epoch_mass else 0.0
        self.history = [EpochResult(**result) for result in state["history"]]
        unknown = torch.full((2 * self.global_step,), math.nan)  # a state of before has no trace
        self.trace = array("f", state.get("trace", unknown).tolist())
        self.best_epoch = state["best_epoch"]

    def _is_best(self, result: EpochResult, *, lower_is_better: bool) -> bool:
        """Without a finite validation metric the last epoch is the best; one that is not finite never wins."""
        best = next(each for each in self.history if each.epoch == self.best_epoch).valid_metric
        if not _is_measured(result.valid_metric) or not _is_measured(best):
            return _is_measured(result.valid_metric) or not _is_measured(best)
        return result.valid_metric < best if lower_is_better else result.valid_metric > best


def _is_measured(metric: float | None) -> TypeGuard[float]:
    return metric is not None and math.isfinite(metric)


def _section(state: Mapping[str, Any], name: str) -> dict[str, Tensor]:
    """The entries `<name>.<key>`, by key."""
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}


def _optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """An optimizer's state as flat tensors, `optimizer.<parameter number>.<name>`."""
    return {
        f"optimizer.{number}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for number, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def _load_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the moments and step counts. Learning rate and weight decay stay those of the optimizer."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
