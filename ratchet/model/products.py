"""Linear layers whose result has the same bits in whatever order a library adds.

A matrix product adds the terms of a row in an order that depends on the shape, the row's place in it and the threads.
Here the factors are integers, in float64, and so small that every sum of their products is an integer that float64
holds: no addition rounds, so all orders give the same number. This is the first slice of the error-free transformation
of Ozaki et al. (2012), "Error-free transformations of matrix multiplication by using fast routines of matrix
multiplication and its applications".

A change here violates the promise of the project when an addition can round, or a row's factor depends on other rows.
"""

import torch
from torch import Tensor, nn

from ratchet.model.inputs import PerColumn

_EXACT = 53
"""float64 holds every integer up to 2**53."""
TERMS = 512
"""Terms of one product; a wider layer is a sum of several, in the order of its inputs."""
BITS = (_EXACT - (TERMS - 1).bit_length()) // 2
"""Of a factor: TERMS products of two factors of at most 2**BITS are at most 2**53. float32 has 24."""
_SMALLEST = torch.finfo(torch.float32).tiny
"""So that zeros can be divided by the largest of them."""


class ExactLinear(nn.Module):
    """A linear layer for inference: [rows, inputs] -> float64 [rows, outputs], each row from itself alone.

    Inputs are rounded to 2**-BITS of the largest of their row, and weights of the largest of their output, in each
    TERMS inputs.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self._weights = [_integers(some) for some in _parts(layer.weight.detach())]
        self._bias = None if layer.bias is None else layer.bias.detach().double()

    def forward(self, inputs: Tensor) -> Tensor:
        """Every step beside the products is elementwise, and no library function but +, * and / takes part."""
        total: Tensor | None = None
        for rows, (weights, unit) in zip(_parts(inputs), self._weights, strict=True):
            factors, scale = _integers(rows)
            product = (factors @ weights.T) * scale * unit.T
            total = product if total is None else total + product
        if total is None:
            raise ValueError("a linear layer has at least one input")
        return total if self._bias is None else total + self._bias


class ExactPerColumn(nn.Module):
    """The same for a linear layer of each column: [rows, columns, inputs] -> float64 [rows, columns, outputs]."""

    def __init__(self, layer: PerColumn) -> None:
        super().__init__()
        columns, inputs, outputs = layer.weight.shape
        if inputs > TERMS:
            raise ValueError(f"a layer of a column has at most {TERMS} inputs, not {inputs}")
        weights, unit = _integers(layer.weight.detach().transpose(1, 2).reshape(columns * outputs, inputs))
        self._weights = weights.reshape(columns, outputs, inputs).transpose(1, 2)
        self._unit, self._bias = unit.reshape(columns, outputs), layer.bias.detach().double()

    def forward(self, values: Tensor) -> Tensor:
        """As that of `ExactLinear`."""
        rows, columns, inputs = values.shape
        factors, scale = _integers(values.reshape(rows * columns, inputs))
        product = (factors.reshape(rows, columns, inputs).transpose(0, 1) @ self._weights).transpose(0, 1)
        return product * scale.reshape(rows, columns, 1) * self._unit + self._bias


def make_exact(module: nn.Module) -> nn.Module:
    """The module with each linear layer in it exact; itself, or its successor where it is one."""
    if isinstance(module, nn.Linear):
        return ExactLinear(module)
    if isinstance(module, PerColumn):
        return ExactPerColumn(module)
    for name, child in module.named_children():
        setattr(module, name, make_exact(child))
    return module


def _parts(rows: Tensor) -> list[Tensor]:
    """The columns, TERMS at a time."""
    return [rows[:, begin : begin + TERMS] for begin in range(0, rows.shape[1], TERMS)]


def _integers(values: Tensor) -> tuple[Tensor, Tensor]:
    """Each row as whole numbers of at most 2**BITS, and their unit, [rows, 1]; NaN if one is not finite."""
    values = values.double()
    largest = values.abs().amax(dim=1, keepdim=True).clamp(min=_SMALLEST)
    return (values * (2.0**BITS / largest)).round(), largest / 2.0**BITS
