"""Activations that are computed again in the backward pass, block by block, so that they need not be kept until then.

A block keeps its inputs alone (Chen et al. 2016, "Training deep nets with sublinear memory cost"). It draws the same
random numbers again, and its buffers stay those of the first time, so the bits of a training are the same.

A change here violates the promise of the project when a training that computes activations again ends with other bits.
"""

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeGuard

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tasks.train.buffers import Buffers

_checkpoint = inspect.unwrap(checkpoint)
"""Without a wrapper for torch's compiler. The first call imports the compiler all the same, which takes 3 s."""


def recompute(body: nn.Module) -> int:
    """Let the blocks of some layers compute their activations again. Returns the number of blocks.

    A block of a plain Sequential is a layer with a matrix, and those without one that follow it. Any other module that
    the layers consist of is a block. A single layer of torch is none: it keeps no more than its inputs.
    """
    if _is_plain(body):
        return _in_blocks(body)
    return sum(_wrap(child) for child in _parts(body))


def _parts(module: nn.Module) -> Iterator[nn.Module]:
    """Its modules, and those of its lists."""
    for child in module.children():
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            yield from _parts(child)
        else:
            yield child


def _wrap(module: nn.Module) -> int:
    if _is_plain(module):
        return _in_blocks(module)
    if _is_one_layer(module):
        return 0
    plain = module.forward

    def forward(*values: Any, **named: Any) -> Any:
        return _computed_again(module, plain, *values, **named)

    module.forward = forward
    return 1


def _in_blocks(layers: nn.Module) -> int:
    """Let a Sequential be computed by block."""
    blocks: list[list[nn.Module]] = []
    for layer in layers.children():
        if not blocks or any(weight.dim() > 1 for weight in layer.parameters()):
            blocks.append([])
        blocks[-1].append(layer)
    made = [nn.Sequential(*block) for block in blocks]
    again = [len(block) > 1 or not _is_one_layer(block[0]) for block in made]

    def forward(value: Any) -> Any:
        for block, is_again in zip(made, again, strict=True):
            value = _computed_again(block, block, value) if is_again else block(value)
        return value

    layers.forward = forward
    return sum(again)


def _computed_again(module: nn.Module, call: Any, *values: Any, **named: Any) -> Any:
    if not torch.is_grad_enabled():
        return call(*values, **named)
    begin = Buffers(module)

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _as_at(begin, module)

    return _checkpoint(call, *values, use_reentrant=False, context_fn=contexts, **named)


@contextmanager
def _as_at(begin: Buffers, module: nn.Module) -> Iterator[None]:
    """Compute with the buffers of the first time; afterwards they are as before: a batch norm has seen its rows."""
    now = Buffers(module)
    begin.restore()
    try:
        yield
    finally:
        now.restore()


def _is_plain(module: nn.Module) -> TypeGuard[nn.Sequential]:
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _is_one_layer(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.nn") and not any(True for _ in module.children())
