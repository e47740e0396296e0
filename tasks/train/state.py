"""The state of a training: everything that a run needs to resume and end with the bits of an uninterrupted one.

A change here violates the promise of the project when a value that the next step depends on is not in `state_dict`.
"""

import math
from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from ratchet.model.networks import Network
from tasks.train.averaging import Average
from tasks.train.checkpoint import BEST, Checkpoint, Checkpointer
from tasks.train.optimizer import Optimizers
from tasks.train.precision import LossScale
from tasks.train.random_states import generator_states, restore_generators
from tasks.train.ranks import Ranks
from tasks.train.row_tables import row_tables
from tasks.train.schedule import Fall
from tasks.train.settings import Segment


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """One line of the history; the fields are those of contracts.summaries.Evaluation.

    step: completed steps of all epochs. epoch: passes over the training rows up to there. loss: of the steps since the
    evaluation before, each weighed by its mass. valid_loss, valid_metric: None without validation days, or without a
    finite value. seconds: of those steps and their checkpoints, without validation.
    """

    step: int
    epoch: float
    loss: float
    valid_loss: float | None
    valid_metric: float | None
    seconds: float
    samples_per_sec: float


@dataclass(kw_only=True, eq=False)
class TrainState:
    """Where a training is. `state_dict` and `load_state_dict` include model, optimizer, best weights and RNG.

    fall: the part in which the learning rate falls. step: completed steps. loss: sum of the losses of the steps since
    the last evaluation, each times its mass. mass: the sum of their masses. rows, seconds: those that they have read,
    and their time. best: the number of the best evaluation, from 1, and 0 before the first. best_weights: those of it,
    until the fall begins. trace: of each completed step its loss and the norm of its gradient, in turn. segments: how
    the steps were computed. loss_scale: of fp16. average: of
    the weights.
    """

    network: Network
    optimizer: Optimizers
    fall: Fall
    step: int = 0
    loss: float = 0.0
    mass: float = 0.0
    rows: int = 0
    seconds: float = 0.0
    history: list[EvaluationResult] = field(default_factory=list)
    best: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    trace: "array[float]" = field(default_factory=lambda: array("f"))
    segments: list[Segment] = field(default_factory=list)
    loss_scale: LossScale = field(default_factory=LossScale)
    average: Average = field(default_factory=Average)

    @property
    def is_complete(self) -> bool:
        """Whether all steps are taken."""
        return self.step >= self.fall.end

    @property
    def is_falling(self) -> bool:
        """Whether the next step is one in which the learning rate falls."""
        return self.step >= self.fall.begin

    @property
    def mean_loss(self) -> float:
        """The loss since the last evaluation; 0 if nothing has counted."""
        return self.loss / self.mass if self.mass else 0.0

    @property
    def evaluations_since_best(self) -> int:
        """Evaluations after the best one; 0 while none has a finite validation metric."""
        measured = any(_is_measured(result.valid_metric) for result in self.history)
        return len(self.history) - self.best if measured else 0

    @property
    def last_step(self) -> int:
        """The step of the last evaluation; 0 before the first."""
        return self.history[-1].step if self.history else 0

    def finish_evaluation(self, result: EvaluationResult, *, lower_is_better: bool) -> None:
        """Add a result to the history, and copy the weights if they are the best so far and the fall is to come."""
        may_win = result.step <= self.fall.begin and self._is_best(result, lower_is_better=lower_is_better)
        if may_win or not self.best:
            self.best = len(self.history) + 1
            self.best_weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        self.history.append(result)
        self.loss, self.mass, self.rows, self.seconds = 0.0, 0.0, 0, 0.0

    def begin_fall(self, fall: Fall) -> None:
        """Go back to the best weights, and take an early fall from there."""
        self.network.load_state_dict(self.best_weights)
        self.average.restart()
        self.fall, self.best_weights = fall, {}

    def begin_segment(self, segment: Segment) -> None:
        """Note how the steps from `segment.begin` on are computed, if it is in another way than those before."""
        while self.segments and self.segments[-1].begin >= segment.begin:
            self.segments.pop()
        if not self.segments or replace(self.segments[-1], begin=segment.begin) != segment:
            self.segments.append(segment)

    def checkpoint(self) -> Checkpoint:
        """The state to save. Only the update of the weights changes parameters and the optimizer's state."""
        updated = {id(parameter) for parameter in self.network.parameters() if parameter.requires_grad}
        moving = (name for name, each in self.network.state_dict(keep_vars=True).items() if id(each) not in updated)
        state = self.state_dict()
        tables = self._tables()
        rows = {name: count for name in state if (count := _rows_of(tables, name)) is not None}
        return Checkpoint(step=self.step, state=state, moving={f"model.{name}" for name in moving}, rows=rows)

    def rows_of(self, name: str) -> int | None:
        """The rows of the whole table, for a tensor of the state that has those of this rank; None for others."""
        return _rows_of(self._tables(), name)

    def _tables(self) -> dict[str, int]:
        """The rows of sharded tables by the names of their tensors; of the optimizer without the last part."""
        names = {id(weight): name for name, weight in self.network.named_parameters()}
        found = dict[str, int]()
        for table in row_tables(self.network):
            number = next(n for n, each in enumerate(self.optimizer.tables) if each is table.weight)
            of_optimizer = f"optimizer.{self.optimizer.number_of(table.weight)}"
            of_average = (f"average.tables.{number}", f"average.seen.{number}")
            name = names[id(table.weight)]
            found |= dict.fromkeys((f"model.{name}", f"{BEST}{name}", of_optimizer, *of_average), table.num_embeddings)
        return found

    def state_dict(self) -> dict[str, Any]:
        """All fields by their stored names: tensors, and values that JSON can hold. Names and order are the format."""
        return {
            "step": self.step,
            "loss": self.loss.hex(),
            "mass": self.mass.hex(),
            "rows": self.rows,
            "seconds": self.seconds,
            "history": [asdict(result) for result in self.history],
            "best": self.best,
            "fall": asdict(self.fall),
            "segments": [asdict(segment) for segment in self.segments],
            "loss_scale": asdict(self.loss_scale),
            "averaged_updates": self.average.updates,
            **{f"model.{name}": tensor for name, tensor in self.network.state_dict().items()},
            **{f"{BEST}{name}": tensor for name, tensor in self.best_weights.items()},
            **{f"optimizer.{name}": tensor for name, tensor in self.optimizer.tensors().items()},
            **{f"average.{name}": tensor for name, tensor in self.average.tensors().items()},
            **generator_states(),
            "trace": torch.from_numpy(np.array(self.trace, np.float32)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned: also the network, the optimizer and the random generators."""
        self.network.load_state_dict(_section(state, "model"))
        self.best_weights = _section(state, "best")
        self.optimizer.load(_section(state, "optimizer"))
        self.average.load(_section(state, "average"), state["averaged_updates"])
        restore_generators(state)
        self.step, self.rows, self.seconds = state["step"], state["rows"], state["seconds"]
        self.loss, self.mass = float.fromhex(state["loss"]), float.fromhex(state["mass"])
        self.history = [EvaluationResult(**result) for result in state["history"]]
        self.best, self.fall = state["best"], Fall(**state["fall"])
        self.segments = [Segment(**segment) for segment in state["segments"]]
        for name, value in state["loss_scale"].items():
            setattr(self.loss_scale, name, value)
        self.trace = array("f", state["trace"].tolist())

    def _is_best(self, result: EvaluationResult, *, lower_is_better: bool) -> bool:
        """Without a finite validation metric the last evaluation is the best; one that is not finite never wins."""
        best = self.history[self.best - 1].valid_metric if self.best else None
        if not _is_measured(result.valid_metric) or not _is_measured(best):
            return _is_measured(result.valid_metric) or not _is_measured(best)
        return result.valid_metric < best if lower_is_better else result.valid_metric > best


def read_newest(checkpointer: Checkpointer, state: TrainState, ranks: Ranks) -> dict[str, Any] | None:
    """The newest checkpoint, and `is_own`; None without one. All ranks call it.

    The first rank reads for all; where tables are sharded, each reads its rows of them.
    """

    def is_sharded(name: str) -> bool:
        return state.rows_of(name) is not None

    found = checkpointer.newest(is_sharded) if ranks.is_first or row_tables(state.network) else None
    if found is None:
        return ranks.broadcast(None)
    own = {name: value for name, value in found.state.items() if is_sharded(name)}
    others = {name: value for name, value in found.state.items() if name not in own}
    shared = ranks.broadcast({**others, "is_own": found.is_own})
    return None if shared is None else {**shared, **own}


def _rows_of(tables: Mapping[str, int], name: str) -> int | None:
    return tables.get(name) or tables.get(name.rpartition(".")[0])


def _is_measured(metric: float | None) -> TypeGuard[float]:
    return metric is not None and math.isfinite(metric)


def _section(state: Mapping[str, Any], name: str) -> dict[str, Tensor]:
    """The entries `<name>.<key>`, by key."""
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
