"""Linear layers whose result has the same bits in whatever order a library adds.

A matrix product adds the terms of a row in an order that depends on the shape, the row's place in it and the threads.
Here the factors are integers, in float64, and so small that every sum of their products is an integer that float64
holds: no addition rounds, so all orders give the same number. This is the first slice of the error-free transformation
of Ozaki et al. (2012), "Error-free transformations of matrix multiplication by using fast routines of matrix
multiplication and its applications".

A change here violates the promise of the project when an addition can round, or a row's factor depends on other rows.
"""

import math
from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional

from ratchet.model.inputs import PerColumn
from ratchet.model.sets import HEADS, WIDTH, Attention

_EXACT = 53
"""float64 holds every integer up to 2**53."""
TERMS = 512
"""Terms of one product; a wider layer is a sum of several, in the order of its inputs."""
BITS = (_EXACT - (TERMS - 1).bit_length()) // 2
"""Of a factor: TERMS products of two factors of at most 2**BITS are at most 2**53. float32 has 24."""
_ROWS_OF_ATTENTION = 512
"""Rows of a group that look at the others at once."""
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
        columns, _, outputs = layer.weight.shape
        self._weights = []
        for part in torch.split(layer.weight.detach(), TERMS, dim=1):
            weights, unit = _integers(part.transpose(1, 2).reshape(columns * outputs, part.shape[1]))
            shaped = weights.reshape(columns, outputs, part.shape[1]).transpose(1, 2)
            self._weights.append((shaped, unit.reshape(columns, outputs)))
        self._bias = layer.bias.detach().double()

    def forward(self, values: Tensor) -> Tensor:
        """As that of `ExactLinear`."""
        rows, columns, _ = values.shape
        total: Tensor | None = None
        for part, (weights, unit) in zip(torch.split(values, TERMS, dim=2), self._weights, strict=True):
            factors, scale = _integers(part.reshape(rows * columns, part.shape[2]))
            shaped = factors.reshape(rows, columns, part.shape[2]).transpose(0, 1)
            product = (shaped @ weights).transpose(0, 1) * scale.reshape(rows, columns, 1) * unit
            total = product if total is None else total + product
        if total is None:
            raise ValueError("a linear layer has at least one input")
        return total + self._bias


class ExactAttention(nn.Module):
    """An attention for inference: each group from its rows alone, one after the other. float64 [rows, width]."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self._given = [ExactLinear(one) for one in (attention.queries, attention.keys, attention.values)]
        self._out = ExactLinear(attention.out)

    def forward(self, hidden: Tensor, sizes: Tensor) -> Tensor:
        """As that of `Attention`."""
        normal = functional.layer_norm(hidden, hidden.shape[1:])
        heads = [layer(normal).unflatten(1, (HEADS, WIDTH)).transpose(0, 1) for layer in self._given]
        groups = zip(*(torch.split(each, sizes.tolist(), dim=1) for each in heads), strict=True)
        mixed = torch.cat([self._mixed(*group) for group in groups], dim=1)
        out: Tensor = self._out(mixed.transpose(0, 1).flatten(1))
        return out

    def _mixed(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The values of a group, [heads, rows, width] all. Some rows at a time, to need less memory."""
        turned = values.transpose(1, 2).contiguous()
        found = []
        for some in torch.split(queries, _ROWS_OF_ATTENTION, dim=1):
            share = torch.softmax(_products(some, keys) / math.sqrt(WIDTH), dim=2)
            parts = zip(torch.split(share, TERMS, dim=2), torch.split(turned, TERMS, dim=2), strict=True)
            found.append(reduce(torch.add, [_products(one, other) for one, other in parts]))
        return torch.cat(found, dim=1)


def _products(rows: Tensor, others: Tensor) -> Tensor:
    """The inner products [heads, rows, others] of vectors [heads, rows, terms] and [heads, others, terms]."""
    (factors, unit), (weights, scale) = (_integers(each.flatten(0, 1)) for each in (rows, others))
    product = factors.reshape(rows.shape) @ weights.reshape(others.shape).transpose(1, 2)
    return product * unit.reshape(*rows.shape[:2], 1) * scale.reshape(len(others), 1, -1)


def make_exact(module: nn.Module) -> nn.Module:
    """The module with each linear layer in it exact; itself, or its successor where it is one."""
    if isinstance(module, nn.Linear):
        return ExactLinear(module)
    if isinstance(module, PerColumn):
        return ExactPerColumn(module)
    if isinstance(module, Attention):
        return ExactAttention(module)
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
