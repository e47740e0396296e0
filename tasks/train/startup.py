"""What torch is set to before a training starts, so that it starts soon and ends with the same bits every time.

Times were measured with torch 2.13 on two CPU cores.

A change here violates the promise of the project when two trainings under one fingerprint can end with other bits on a
CPU.
"""

import inspect
import os

import torch

from ratchet.contracts.errors import ConfigurationError
from tasks.train.random_states import seed_generators


def prepare(*, seed: int, cpus: float, gpus: int) -> torch.device:
    """Set seeds, threads and determinism. Returns the device to train on. Raises ConfigurationError without a GPU."""
    device = _select_device(gpus)
    seed_generators(seed)
    _set_threads(cpus)
    _make_deterministic(strict=not gpus)
    torch.backends.cudnn.allow_tf32 = False  # torch computes convolutions in tf32 unless it is told
    return device


def _select_device(gpus: int) -> torch.device:
    if gpus and not torch.cuda.is_available():
        raise ConfigurationError(
            f"resources.train.gpus is {gpus}, but this host has no GPU",
            remedy="set it to 0, or use a host with a GPU",
        )
    if gpus > torch.cuda.device_count():
        raise ConfigurationError(
            f"resources.train.gpus is {gpus}, but this host has {torch.cuda.device_count()}",
            remedy="lower it, or use a host with more GPUs",
        )
    return torch.device("cuda" if gpus else "cpu")


def _set_threads(cpus: float) -> None:
    """Follow the spec, not the machine: how a sum is split over threads decides how it is rounded.

    Measured: the same 15 steps of 4,096 rows end with other weights on one thread than on two.
    """
    torch.set_num_threads(max(1, round(cpus)))


def _make_deterministic(*, strict: bool) -> None:
    """Make operations without a deterministic form an error, or a warning if not `strict`.

    `torch.use_deterministic_algorithms` does the same, but imports torch's compiler to set its switch: 3 s. The
    debug mode takes less than a millisecond, and the compiler reads its switch from the environment if a model uses it.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS does not repeat its results
    os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"
    torch.set_deterministic_debug_mode("error" if strict else "warn")
    if not strict:  # torch would fill new memory with NaN, by one more kernel each time
        torch.utils.deterministic.fill_uninitialized_memory = False


class WithoutCompiler(torch.optim.Optimizer):
    """An optimizer without the wrappers that hide its methods from torch's compiler.

    A wrapper imports the compiler at its first call: it takes 3 to 4 s with the wrappers and 0.01 s without. The
    mathematics is the same.
    """

    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)


class AdamW(WithoutCompiler, torch.optim.AdamW):
    """torch's AdamW, whose step has such a wrapper too."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


class Sgd(WithoutCompiler, torch.optim.SGD):
    """torch's SGD, likewise."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.SGD.step))
