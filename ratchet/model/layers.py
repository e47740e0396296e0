"""The layers after the inputs, and what they are called with."""

from collections.abc import Callable
from typing import NamedTuple

from torch import nn


class Layers(NamedTuple):
    """asks: what forward asks for by name, see ratchet.contracts.own_module; None for x alone, by place.

    check: raises ConfigurationError for the output of some rows that is no score for each of them.
    """

    module: nn.Module
    asks: tuple[str, ...] | None = None
    check: Callable[[object, int], None] = lambda _output, _rows: None
