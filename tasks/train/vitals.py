"""What people watch while a training runs: whether it learns, what it waits for, and what it needs."""

import math
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from tasks.train.checkpoint import Checkpointer
from tasks.train.optimizer import Optimizers
from tasks.train.state import TrainState

_MIB = 1024 * 1024


class Vitals:
    """Measures reading, and collects the rest. device: that of the network."""

    def __init__(self, optimizer: Optimizers, checkpointer: Checkpointer, device: torch.device) -> None:
        self._optimizer, self._checkpointer, self._device = optimizer, checkpointer, device
        self._seconds, self._reads = 0.0, 0
        self._seen: tuple[float, float, int] = (time.perf_counter(), 0.0, 0)

    @property
    def loading(self) -> float:
        """Mean seconds to read a batch."""
        return self._seconds / max(self._reads, 1)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Measure the reading of a batch."""
        begin = time.perf_counter()
        yield
        self._seconds += time.perf_counter() - begin
        self._reads += 1

    def fields(self, state: TrainState) -> dict[str, float]:
        """Of the steps since the last call, or of the last one; the names are those of the metrics in MLflow.

        waiting_pct: share of the time that went into reading rows. memory_mib: the most that was in use so far, of the
        GPU's memory where there is one, else of the process.
        """
        then, seconds, reads = self._seen
        now = time.perf_counter()
        self._seen = (now, self._seconds, self._reads)
        found = {
            "learning_rate": self._optimizer.rate,
            "data_loading_latency_ms": 1000 * (self._seconds - seconds) / max(self._reads - reads, 1),
            "waiting_pct": 100 * (self._seconds - seconds) / max(now - then, 1e-9),
            "memory_mib": self._memory_mib(),
        }
        if state.trace and math.isfinite(state.trace[-1]):
            found["gradient_norm"] = state.trace[-1]
        if self._checkpointer.durations:
            found["checkpoint_duration_ms"] = 1000 * self._checkpointer.durations[-1]
        busy = gpu_utilization(self._device)
        return {**found, "gpu_utilization_pct": busy} if busy is not None else found

    def _memory_mib(self) -> float:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device) / _MIB
        return most_mib()


def most_mib() -> float:
    """The most memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts in KiB


def resident_bytes() -> int:
    """The memory of this process now, without the files that it has mapped."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return (int(resident) - int(shared)) * resource.getpagesize()


def gpu_utilization(device: torch.device) -> float | None:
    """Percent of the last second in which the GPU computed, by NVML; None without a GPU or without NVML's library."""
    if device.type == "cuda":
        with suppress(Exception):  # NVML's errors have no common base that can be named without its library
            return float(torch.cuda.utilization(device))
    return None
