"""The state of a training: everything that a run needs to resume and end with the bits of an uninterrupted one.

A change here violates the promise of the project when a value that the next step depends on is not in `state_dict`, or
when a checkpoint of an earlier release cannot be loaded.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ratchet.model.networks import Network


@dataclass(frozen=True, kw_only=True)
class EpochResult:
    """One line of the history; the fields are those of contracts.summaries.Epoch.

    loss: mean over the steps. valid_loss, valid_metric: None without validation days, or where the metric has no value.
    seconds: of the training steps and their checkpoints, without validation.
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
    epoch_loss: sum of the losses of those steps. epoch_seconds: their time. best: the weights of `best_epoch`, empty
    before the first epoch is complete.
    """

    network: Network
    optimizer: Optimizer
    steps_per_epoch: int
    epoch: int = 1
    step: int = 0
    epoch_loss: float = 0.0
    epoch_seconds: float = 0.0
    history: list[EpochResult] = field(default_factory=list)
    best_epoch: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)

    @property
    def global_step(self) -> int:
        """Completed steps of all epochs."""
        return (self.epoch - 1) * self.steps_per_epoch + self.step

    @property
    def epochs_since_best(self) -> int:
        """Completed epochs after the best one; 0 while no epoch has a validation metric."""
        measured = any(result.valid_metric is not None for result in self.history)
        return len(self.history) - self.best_epoch if measured else 0

    def finish_epoch(self, result: EpochResult, *, lower_is_better: bool) -> None:
        """Add a result to the history, copy the weights if they are the best so far, and move to the next epoch."""
        if not self.best or self._is_best(result, lower_is_better=lower_is_better):
            self.best_epoch = self.epoch
            self.best = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        self.history.append(result)
        self.epoch += 1
        self.step, self.epoch_loss, self.epoch_seconds = 0, 0.0, 0.0

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
            "rng": torch.get_rng_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned: also the network, the optimizer and torch's random generator."""
        device = next(self.network.parameters()).device
        self.network.load_state_dict(_section(state, "model"))
        self.best = {name: tensor.to(device) for name, tensor in _section(state, "best").items()}
        _load_optimizer(self.optimizer, _section(state, "optimizer"))
        torch.set_rng_state(state["rng"])
        self.epoch, self.step = state["epoch"], state["step"]
        self.epoch_loss, self.epoch_seconds = float.fromhex(state["epoch_loss"]), state["epoch_seconds"]
        self.history = [EpochResult(**result) for result in state["history"]]
        self.best_epoch = state["best_epoch"]

    def _is_best(self, result: EpochResult, *, lower_is_better: bool) -> bool:
        """Without a validation metric the last epoch is the best."""
        best = next(each for each in self.history if each.epoch == self.best_epoch).valid_metric
        if result.valid_metric is None or best is None:
            return result.valid_metric is not None or best is None
        return result.valid_metric < best if lower_is_better else result.valid_metric > best


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
