"""The optimizer: AdamW or SGD, with settings for each kind of parameter. In a large table only a step's rows move."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ratchet.model.inputs import Embeddings
from tasks.train.parameter_groups import OwnGroup, own_groups
from tasks.train.ranks import Ranks
from tasks.train.row_tables import RowTable, norm_of_rows, row_tables
from tasks.train.rows_optimizer import RowsAdam
from tasks.train.startup import AdamW, Sgd

LARGE = 100_000
"""Rows of a table from which on only those of a step are updated. Measured on one core, vectors of 32, 4,096 ids in a
step: 5.6 ms for all of 100,000 rows and 3.9 ms for those of the step; 88 and 4.6 ms of a million."""
_EPS_OF_VECTORS = 1e-3
"""Added to the root of the second moment of the vectors of categories. A rare category has tiny gradients, and Adam
with its usual 1e-8 would give each of its few rows a whole step: that is how networks learn ids by heart."""
_RATE_OF_VECTORS = 3.0
"""Their learning rate, as a multiple of that of the layers."""
_MOMENTUM = 0.9
"""Of SGD, in Nesterov's form (Sutskever et al. 2013). A row of a large table has none: it would have to move in steps
that do not read it. So its rate is larger by what a gradient moves a weight in all with the momentum."""


_BLOCK, _FEW = 8192, 1 << 20
"""Numbers that a multiprocessor of a GPU updates at once, where a group has few."""


class Optimizers:
    """AdamW for layers and small tables, and RowsAdam for the large tables, if there are any; or SGD for all."""

    def __init__(self, network: nn.Module, *, learning_rate: float, weight_decay: float, kind: str = "adamw") -> None:
        """Decay is for matrices alone: not for biases and scales, and not for the vectors of categories.

        A module of the pipeline's own may have other rates and decays, see tasks.train.parameter_groups.

        From here on, backward gives a large table a sparse gradient. kind: adamw or sgd.
        """
        tables = [
            module
            for embeddings in network.modules()
            if isinstance(embeddings, Embeddings)
            for module in embeddings.tables.values()
            if isinstance(module, nn.Embedding)
        ]
        vectors, large = list[Tensor](), list[Tensor]()
        for table in tables:
            table.sparse = isinstance(table, RowTable) or table.num_embeddings >= LARGE
            (large if table.sparse else vectors).append(table.weight)
        own = own_groups(getattr(network, "body", network))
        ours = {id(weight) for weight in (*vectors, *large, *(weight for group in own for weight in group.params))}
        others = [weight for weight in network.parameters() if id(weight) not in ours]
        groups = [
            {"params": [weight for weight in others if weight.dim() > 1], "weight_decay": weight_decay, "factor": 1.0},
            {"params": [weight for weight in others if weight.dim() <= 1], "weight_decay": 0.0, "factor": 1.0},
            {"params": vectors, "weight_decay": 0.0, "factor": _RATE_OF_VECTORS, "eps": _EPS_OF_VECTORS},
            *(part for group in own for part in _as_groups(group, weight_decay)),
        ]
        given = [group for group in groups if group["params"]]
        make = _sgd if kind == "sgd" else _adamw
        self.parts = make(given, large, learning_rate)
        self._parameters = [weight for weight in network.parameters() if weight.requires_grad]
        self.layers = [weight for weight in self._parameters if not any(weight is table for table in large)]
        """All parameters but the large tables."""
        self.tables = large
        self._ranks = {id(table.weight): table.ranks for table in row_tables(network)}
        self.by_rows = bool(self._ranks)
        """Whether the norm of a large table comes from those of its rows: so it is where tables are sharded."""
        self.rate = learning_rate
        self._on_device: tuple[Tensor, Tensor] | None = None

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the layers, and the others by it."""
        before, self.rate = self.rate, rate
        if self._on_device is None:
            for group in self._groups():
                group["lr"] = rate * group["factor"]
        elif rate != before:
            rates, factors = self._on_device
            torch.mul(factors, rate, out=rates)

    def prepare_to_record(self) -> None:
        """From here on keep the rates in the GPU's memory: what a CUDA graph has recorded reads them there."""
        if self._on_device is None:
            factors = torch.tensor([group["factor"] for group in self._groups()], device=self.layers[0].device)
            self._on_device = (factors * self.rate, factors)
            for group, rate in zip(self._groups(), self._on_device[0].unbind(), strict=True):
                group["lr"] = rate

    def _groups(self) -> Iterator[dict[str, Any]]:
        return (group for part in self.parts for group in part.param_groups)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def clip(self, largest: float) -> Tensor:
        """Scale the gradients down to a norm of at most `largest`. Returns their norm before."""
        gradients, summed, norms = list[Tensor](), list[Tensor](), list[Tensor]()
        for weight in self._parameters:
            if weight.grad is None:
                continue
            if weight.grad.is_sparse:
                weight.grad = weight.grad.coalesce()
            gradients.append(weight.grad.values() if weight.grad.is_sparse else weight.grad)
            if self.by_rows and weight.grad.is_sparse:
                norms.append(norm_of_rows(weight.grad, self._ranks.get(id(weight), Ranks())).to(weight.dtype))
            else:
                summed.append(gradients[-1])
        if not gradients:
            return torch.zeros(())
        norm = torch.nn.utils.get_total_norm(summed)
        if norms:
            norm = torch.linalg.vector_norm(torch.stack([norm, *norms]))
        scale = torch.clamp(largest / (norm + 1e-6), max=1.0)
        torch._foreach_mul_(gradients, scale)
        return norm

    def step(self) -> None:
        """Update the parameters by their gradients."""
        for part in self.parts:
            if self._on_device is None or not all(_update_in_blocks(part, group) for group in part.param_groups):
                part.step()

    def number_of(self, weight: Tensor) -> int:
        """The number of a parameter in the names of `tensors`."""
        numbered = (each for part in self.parts for group in part.param_groups for each in group["params"])
        return next(number for number, each in enumerate(numbered) if each is weight)

    def tensors(self) -> dict[str, Tensor]:
        """The state as flat tensors, `<parameter number>.<name>`; the numbers go on from one part to the next."""
        return {
            f"{first + number}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
            for first, part in self._numbered()
            for number, state in part.state_dict()["state"].items()
            for name, value in state.items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` returned. Learning rate and weight decay stay as they are."""
        found: dict[int, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            number, _, name = key.partition(".")
            found.setdefault(int(number), {})[name] = tensor
        for first, part in self._numbered():
            numbers = range(sum(len(group["params"]) for group in part.param_groups))
            state = {number: found[first + number] for number in numbers if first + number in found}
            part.load_state_dict({"state": state, "param_groups": part.state_dict()["param_groups"]})

    def _numbered(self) -> Iterable[tuple[int, Optimizer]]:
        """Each part, and the number of its first parameter."""
        first = 0
        for part in self.parts:
            yield first, part
            first += sum(len(group["params"]) for group in part.param_groups)


@torch.no_grad()
def _update_in_blocks(part: Optimizer, group: dict[str, Any]) -> bool:
    """Take a step of fused AdamW on a GPU; False before the first one, which makes the state.

    torch gives 65,536 numbers of a tensor to one multiprocessor, so that few of them work for a small network. Here a
    tensor is several. The numbers are the same. Rates are in the GPU's memory.
    """
    weights = [weight for weight in group["params"] if weight.grad is not None]
    states = [part.state[weight] for weight in weights]
    if not all(states):
        return False
    size = _BLOCK if sum(weight.numel() for weight in weights) <= _FEW else max(weight.numel() for weight in weights)

    def blocks(tensors: Iterable[Tensor]) -> list[Tensor]:
        return [block for tensor in tensors for block in torch.split(tensor.detach().view(-1), size)]

    steps = [state["step"] for state in states]
    torch._foreach_add_(steps, 1)
    torch._fused_adamw_(
        blocks(weights),
        blocks(weight.grad for weight in weights),
        blocks(state["exp_avg"] for state in states),
        blocks(state["exp_avg_sq"] for state in states),
        [],
        [step for step, weight in zip(steps, weights, strict=True) for _ in range(-(-weight.numel() // size))],
        lr=group["lr"],
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        amsgrad=False,
        maximize=False,
    )
    return True


def _adamw(groups: list[dict[str, Any]], large: list[Tensor], rate: float) -> list[Optimizer]:
    parts: list[Optimizer] = [AdamW(groups, lr=rate, fused=True)] if groups else []
    if large:
        parts.append(RowsAdam(large, lr=rate, eps=_EPS_OF_VECTORS, factor=_RATE_OF_VECTORS))
    return parts


def _sgd(groups: list[dict[str, Any]], large: list[Tensor], rate: float) -> list[Optimizer]:
    parts: list[Optimizer] = [Sgd(groups, lr=rate, momentum=_MOMENTUM, nesterov=True)] if groups else []
    if large:
        of_rows = {"params": large, "factor": _RATE_OF_VECTORS / (1 - _MOMENTUM)}
        parts.append(Sgd([of_rows], lr=rate))
    return parts


def _as_groups(group: OwnGroup, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices and others of a group of the pipeline's own; without a decay of its own, they have that of all."""
    matrices, others = ([weight for weight in group.params if (weight.dim() > 1) is kind] for kind in (True, False))
    decays = (weight_decay, 0.0) if group.weight_decay is None else (group.weight_decay,) * 2
    return [
        {"params": some, "weight_decay": decay, "factor": group.factor}
        for some, decay in zip((matrices, others), decays, strict=True)
    ]
