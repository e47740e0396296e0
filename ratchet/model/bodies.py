"""The layers of our own architectures, after the inputs."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ratchet.model.description import Architecture
from ratchet.model.inputs import PerColumn
from ratchet.model.layers import Layers
from ratchet.model.sets import SetLayers


class Cross(nn.Module):
    """Cross layers of a DCN-V2 (Wang et al. 2021, eq. 1): x_next = x0 * (W x + b) + x. [rows, inputs] both ways."""

    def __init__(self, inputs: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(inputs, inputs) for _ in range(layers))

    def forward(self, first: Tensor) -> Tensor:
        """Explicit feature crosses of an order that grows by one with each layer."""
        crossed = first
        for layer in self.layers:
            crossed = first * layer(crossed) + crossed
        return crossed


class Members(nn.Module):
    """A TabM-mini (Gorishniy et al. 2024, arXiv 2410.24210): one network with many members.

    Members share all layers but two: each scales the inputs by factors of its own, which start at 1 or -1, and has a
    last layer of its own. [rows, inputs] -> [rows, members, outputs].
    """

    def __init__(self, deep: nn.Module, inputs: int, width: int, outputs: int, members: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randint(0, 2, (members, inputs)).float() * 2 - 1)
        self.deep, self.heads = deep, PerColumn(members, width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Each member has outputs of its own, which the loss sees one by one."""
        each = (x.unsqueeze(1) * self.scale).flatten(0, 1)
        out: Tensor = self.heads(self.deep(each).unflatten(0, (len(x), len(self.scale))))
        return out


def body(architecture: Architecture, inputs: int, outputs: int) -> Layers:
    """The layers of one of our own architectures."""
    if architecture.kind == "linear":
        return Layers(nn.Linear(inputs, outputs))
    deep = _deep(architecture.hidden, inputs, architecture.dropout)
    width = architecture.hidden[-1] if architecture.hidden else inputs
    if architecture.kind == "tabm":
        return Layers(Members(nn.Sequential(*deep), inputs, width, outputs, architecture.members))
    layers = deep if architecture.kind == "mlp" else [Cross(inputs, architecture.cross_layers), *deep]
    if architecture.kind == "set":
        return Layers(SetLayers(nn.Sequential(*layers), inputs, width, outputs), asks=("x", "sizes"))
    made = nn.Sequential(*layers, nn.Linear(width, outputs))
    return Layers(Beside(nn.Linear(inputs, outputs), made) if architecture.skip else made)


class Beside(nn.Module):
    """The sum of a linear layer and of others, as in Wide & Deep (Cheng et al. 2016). [rows, inputs] both ways."""

    def __init__(self, linear: nn.Linear, deep: nn.Module) -> None:
        super().__init__()
        self.linear, self.deep = linear, deep
        nn.init.zeros_(linear.weight)
        nn.init.zeros_(linear.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """Both see the same inputs."""
        total: Tensor = self.linear(inputs) + self.deep(inputs)
        return total


def _deep(widths: Sequence[int], inputs: int, dropout: float) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        inputs = width
    return layers
