"""Layers in which the items of a query attend to each other: a score can depend on what an item is ranked against."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from ratchet.model.transfer import to_device

HEADS, WIDTH = 4, 16
"""Heads of an attention, and the width of the vectors of each."""


class Attention(nn.Module):
    """Self-attention over the rows of each group, [rows, width] both ways (Vaswani et al. 2017, 3.2).

    Without positions, so another order of a group's rows is the same order of their outputs (Pang et al. 2020,
    "SetRank"). Its last layer starts at zero: at first a network with it computes what one without it does.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(width, HEADS * WIDTH) for _ in range(3))
        self.out = nn.Linear(HEADS * WIDTH, width)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, hidden: Tensor, sizes: Tensor) -> Tensor:
        """sizes: int64 [groups], in the host's memory, the rows of each group, one after the other.

        Groups of about the same size are computed together, filled up to the largest of them.
        """
        normal = functional.layer_norm(hidden, hidden.shape[1:])
        queries, keys, values = self.queries(normal), self.keys(normal), self.values(normal)
        parts, order = [], []
        for rows, filled in _alike(sizes):
            own = to_device(rows, hidden.device)
            q, k, v = (_heads(functional.embedding(own, each)) for each in (queries, keys, values))
            empty = to_device(~filled[:, None, None, :], hidden.device)
            likeness = (q @ k.transpose(2, 3) / math.sqrt(WIDTH)).masked_fill(empty, -math.inf)
            found = (torch.softmax(likeness, dim=3) @ v).transpose(1, 2).flatten(2)
            kept = to_device(filled.flatten().nonzero().squeeze(1), hidden.device)
            parts.append(functional.embedding(kept, found.flatten(0, 1)))
            order.append(rows[filled])
        back = to_device(torch.argsort(torch.cat(order)), hidden.device)
        out: Tensor = self.out(functional.embedding(back, torch.cat(parts)))
        return out


def _heads(vectors: Tensor) -> Tensor:
    """[groups, rows, HEADS * WIDTH] -> [groups, HEADS, rows, WIDTH]."""
    return vectors.reshape(*vectors.shape[:2], HEADS, WIDTH).transpose(1, 2)


def _alike(sizes: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """(row numbers, which of them are filled), both [groups, longest], of groups whose sizes differ by a factor of 2.

    What is not filled has the number of the group's first row.
    """
    starts = torch.cumsum(sizes, 0) - sizes
    powers = torch.ceil(torch.log2(sizes.double())).long()
    for power in torch.unique(powers).tolist():
        chosen = powers == power
        lengths, begin = sizes[chosen].unsqueeze(1), starts[chosen].unsqueeze(1)
        place = torch.arange(int(lengths.max())).unsqueeze(0)
        filled = place < lengths
        yield torch.where(filled, begin + place, begin), filled


class SetLayers(nn.Module):
    """Layers for each row, attention between the rows of a group, a last layer, and a linear layer beside them all."""

    def __init__(self, deep: nn.Module, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.deep, self.attention, self.head = deep, Attention(width), nn.Linear(width, outputs)
        self.linear = nn.Linear(inputs, outputs)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        """[rows, inputs] -> [rows, outputs]. sizes: as those of `Attention`."""
        hidden = self.deep(x)
        out: Tensor = self.linear(x) + self.head(hidden + self.attention(hidden, sizes))
        return out
