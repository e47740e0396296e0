"""The random generators that a training draws from: torch's, of the CPU and of the GPU, Python's and NumPy's.

Ratchet draws from torch's; the code of a pipeline may draw from each.

A change here violates the promise of the project when a resumed training draws other numbers than an uninterrupted one.
"""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

_TORCH, _CUDA, _PYTHON, _NUMPY = "rng", "rng_cuda", "rng_python", "rng_numpy"


def seed_generators(seed: int) -> None:
    """Seed every generator."""
    torch.manual_seed(seed)  # of the CPU and of every GPU
    random.seed(seed)
    np.random.seed(seed)


class Generators:
    """The states of torch's generators at one moment, for a computation that may have to be repeated.

    Not those of Python and NumPy: to read them takes 65 us, a tenth of a small step, and Ratchet draws from torch's.
    """

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state() if _has_cuda() else None

    def restore(self) -> None:
        """Put them back to that moment."""
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state(self._cuda)


def generator_states() -> dict[str, Any]:
    """The states by their stored names: tensors, and values that JSON can hold. The GPU's only if it is in use."""
    cuda = {_CUDA: torch.cuda.get_rng_state()} if _has_cuda() else {}
    kind, keys, *rest = np.random.get_state()
    return {
        _TORCH: torch.get_rng_state(),
        **cuda,
        _PYTHON: random.getstate(),
        _NUMPY: [kind, np.asarray(keys).tolist(), *rest],
    }


def restore_generators(states: Mapping[str, Any]) -> None:
    """Restore what `generator_states` returned, also after JSON. A generator without a state stays as it is."""
    torch.set_rng_state(states[_TORCH])
    if _CUDA in states and _has_cuda():
        torch.cuda.set_rng_state(states[_CUDA].cpu())
    if _PYTHON in states:
        version, keys, gauss = states[_PYTHON]
        random.setstate((version, tuple(keys), gauss))
    if _NUMPY in states:
        kind, keys, *rest = states[_NUMPY]
        np.random.set_state((kind, np.array(keys, np.uint32), *rest))


def _has_cuda() -> bool:
    """Whether this process uses a GPU; asking for the state of one would start to use it."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch has no types here
