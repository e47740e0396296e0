"""The buffers of layers at one moment, such as the running means of a batch norm, to put them back later."""

import torch
from torch import nn


class Buffers:
    """The buffers of a module and of those in it. A module may change them in place, or set others in their place."""

    @torch.no_grad()
    def __init__(self, module: nn.Module) -> None:
        self._found = [
            (owner, name, buffer, buffer.clone())
            for owner in module.modules()
            for name, buffer in owner.named_buffers(recurse=False)
        ]

    def restore(self) -> None:
        """Put them back to that moment, without a note of it in the graph of a backward pass."""
        for owner, name, buffer, value in self._found:
            if getattr(owner, name) is not buffer:
                setattr(owner, name, buffer)
            buffer.data.copy_(value)
