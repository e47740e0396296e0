"""Rows of sharded tables in a checkpoint: each rank writes its own, and any number of ranks reads them.

Rank r of W has the rows r, r + W, r + 2 W, ... of a table: its stripe, with the name `<tensor>%<W>=<r>`. A table of one
rank has its plain name, so one that is whole and one that is sharded over one rank are stored alike.

A change here violates the promise of the project when a row is read as another one.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

_BLOCK = re.compile(r"^(.*)\[(\d+):\d+\]$", re.DOTALL)
_STRIPE = re.compile(r"^(.*)%(\d+)=(\d+)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Stripe:
    """Every `every`-th row, a power of two, from the row `first` on; by default all rows."""

    every: int = 1
    first: int = 0

    def named(self, tensor: str) -> str:
        """The stored name of its part of a tensor."""
        return tensor if self.every == 1 else f"{tensor}%{self.every}={self.first}"

    def count(self, rows: int) -> int:
        """How many of so many rows it has."""
        return len(range(self.first, rows, self.every))

    def meets(self, other: "Stripe") -> bool:
        """Whether the two have rows in common."""
        both = min(self.every, other.every)
        return self.first % both == other.first % both

    def take(self, into: Tensor, block: Tensor, other: "Stripe", begin: int) -> int:
        """Copy into its rows those that a block of another stripe has. Returns how many there were.

        begin: the number of the block's first row in the other stripe.
        """
        if not self.meets(other):
            return 0
        step = max(self.every // other.every, 1)
        first = begin + ((self.first - other.first) // other.every - begin) % step
        some = block[first - begin :: step]
        to = (other.first + first * other.every - self.first) // self.every
        into[to :: max(other.every // self.every, 1)][: len(some)] = some
        return len(some)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is read of a checkpoint.

    own: the stripe of sharded tables that this rank has. is_sharded: whether a tensor is one of those. alone: whether
    nothing else is read. rows: of the tables that are stored in stripes, by the names of their tensors.
    """

    own: Stripe = Stripe()
    is_sharded: Callable[[str], bool] = lambda _name: False
    alone: bool = False
    rows: Mapping[str, int] = field(default_factory=dict)

    def join(self, path: Path, shapes: Mapping[str, list[int]], into: dict[str, Tensor], left: dict[str, int]) -> None:
        """Read a file. Its blocks and stripes become parts of tensors, which are copies: the file is free afterwards.

        shapes: of the tensors that are cut into blocks, by name. left: the rows that are still missing, by name; those
        of this file are taken off. Raises SafetensorError, ValueError or RuntimeError.
        """
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            for stored in names:
                name, stripe, begin = self._meaning(stored, shapes)
                if self.alone and not self.is_sharded(name):
                    continue
                tensor = file.get_tensor(stored)
                if stored == name and not self.is_sharded(name):
                    into[name] = tensor.clone()
                    continue
                own = self.own if self.is_sharded(name) else Stripe()
                if name not in into:
                    whole = self.rows.get(name) or shapes.get(name, tensor.shape)[0]
                    into[name] = torch.empty((own.count(whole), *tensor.shape[1:]), dtype=tensor.dtype)
                    left[name] = len(into[name])
                left[name] -= own.take(into[name], tensor, stripe, begin)

    def _meaning(self, stored: str, shapes: Mapping[str, list[int]]) -> tuple[str, Stripe, int]:
        """The name of the tensor, which rows of it these are part of, and the number of the first one there."""
        block = _BLOCK.match(stored)
        whole, begin = (block[1], int(block[2])) if block and block[1] in shapes else (stored, 0)
        stripe = _STRIPE.match(whole)
        if stripe is None or stripe[1] not in self.rows:
            return whole, Stripe(), begin
        return stripe[1], Stripe(int(stripe[2]), int(stripe[3])), begin
