"""Where the time of a training goes: its phases measured by the clock, and a trace of a few steps by torch's profiler.

It wraps what a loop calls, and takes that away when it has seen enough: a training that is not profiled has no cost,
and one that is computes the same bits. It uses `torch.autograd.profiler`: `torch.profiler` imports torch's compiler
when it starts, which takes seconds. While it looks, a GPU is given its kernels one by one: a CUDA graph has no phases.

A change here violates the promise of the project when a profiled training ends with other bits on a CPU.
"""

import gzip
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch.autograd import profiler

from tasks.train.loop import Loop

WARM_UP, TRACED = 5, 5
"""Steps before the trace, and in it."""
_LEAST_S, _LEAST_STEPS = 10.0, 50
"""What the clock measures after the trace, if the training is long enough."""
VALIDATION, CHECKPOINT, OTHERS, COPIES, OTHER = "validation", "checkpoint", "other processes", "copies", "other"
_CALLS = (
    ("reading rows", "_read"),
    ("forward", "_network.scores"),
    ("loss", "_computation._loss"),
    ("backward", "_computation.add_gradients"),
    ("update", "_optimizer.zero_grad"),
    ("update", "_optimizer.clip"),
    ("update", "_optimizer.step"),
    (OTHERS, "_ranks.sum"),
    (OTHERS, "_ranks.exchange"),
    (CHECKPOINT, "_checkpointer.wait_for_copy"),
    (CHECKPOINT, "_save"),
    ("logging", "_losses.ask"),
    ("logging", "_losses.take"),
    ("logging", "_losses.flush"),
    ("logging", "_vitals.fields"),
    ("logging", "_progress.log_step"),
    ("logging", "_progress.log_evaluation"),
    (VALIDATION, "_validation.measure"),
)
"""The phase of each call. What a call of another phase takes inside it counts there, but for validation."""
PHASES = (*dict.fromkeys(phase for phase, _ in _CALLS), COPIES, OTHER)


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operation of the traced steps. share: of their time, without what it calls. calls: in a step."""

    name: str
    share: float
    calls: float


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Where the time went.

    steps, seconds: what the clock measured. shares: of it, by phase. Copies between host and GPU are a share of the
    traced steps, and also in the phases that wait for them. operators: the largest first.
    """

    steps: int
    seconds: float
    shares: dict[str, float]
    operators: tuple[Operator, ...]


class Profiler:
    """Profiles a loop, from its construction on to the end of the block at most. trace: the file to write, in gzip."""

    def __init__(self, loop: Loop, trace: Path) -> None:
        self._trace, self._steps = trace, 0
        self._gpu = bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch has no types here
        self._torch: Any = profiler.profile(
            use_device="cuda" if self._gpu else None,
            use_kineto=self._gpu,  # otherwise neither kernels nor copies of a GPU are seen
        )
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._inside: list[float] = []
        self._traces = self._measures = self._is_whole = False
        self._begin = self._end = 0.0
        self._measured = 0
        self._operators: tuple[Operator, ...] = ()
        self._copies = 0.0
        self._wrapped = [self._wrap(loop, path, phase) for phase, path in _CALLS]
        self._wrapped.append(_replace(loop, "_take_step", self._stepping))
        self._wrapped.append(_replace(*_attribute(loop, "_computation.graphs"), lambda _: None))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish()

    @property
    def profile(self) -> Profile | None:
        """What was found; None if the training was too short."""
        seconds = self._end - self._begin
        if not self._measured or seconds <= 0:
            return None
        shares = {phase: spent / seconds for phase, spent in self._seconds.items()}
        shares[OTHER] = max(1 - sum(shares.values()), 0.0)
        shares[COPIES] = self._copies
        return Profile(steps=self._measured, seconds=seconds, shares=shares, operators=self._operators)

    def _wrap(self, loop: Loop, path: str, phase: str) -> Callable[[], None]:
        return _replace(*_attribute(loop, path), lambda call: self._timing(phase, call))

    def _timing(self, phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*values: Any, **named: Any) -> Any:
            if self._is_whole or not (self._traces or self._measures):
                return call(*values, **named)
            begin = time.perf_counter()
            self._inside.append(0.0)
            self._is_whole = phase == VALIDATION
            try:
                with profiler.record_function(phase) if self._traces else nullcontext():
                    return call(*values, **named)
            finally:
                self._is_whole = False
                if self._gpu:
                    torch.cuda.synchronize()  # so that the time of a phase is its own
                spent = time.perf_counter() - begin
                inside = self._inside.pop()
                if self._measures:
                    self._seconds[phase] += spent - inside
                if self._inside:
                    self._inside[-1] += spent

        return timed

    def _stepping(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(**given: bool) -> Any:
            self._steps += 1
            if self._steps == WARM_UP + 1:
                self._torch.__enter__()
                self._traces, self._begin = True, time.perf_counter()
            taken = call(**given)
            if self._measures:
                self._measured += 1
                if self._measured >= _LEAST_STEPS and time.perf_counter() - self._begin >= _LEAST_S:
                    self._finish()
            elif self._steps == WARM_UP + TRACED:
                self._end_trace()
                self._measures, self._begin = True, time.perf_counter()
            return taken

        return step

    def _end_trace(self) -> None:
        seconds = time.perf_counter() - self._begin
        self._traces = False
        self._torch.__exit__(None, None, None)
        plain = self._trace.with_suffix("")
        self._torch.export_chrome_trace(str(plain))
        with plain.open("rb") as source, gzip.open(self._trace, "wb", compresslevel=5) as packed:
            shutil.copyfileobj(source, packed)
        plain.unlink()
        found = self._torch.key_averages()
        self._operators = _operators(found)
        copies = sum(each.self_device_time_total for each in found if each.key.startswith("Memcpy"))
        self._copies = copies / 1e6 / max(seconds, 1e-9)

    def _finish(self) -> None:
        """End, and take the wrappers away."""
        if self._traces:
            self._end_trace()
        if self._measures:
            self._measures, self._end = False, time.perf_counter()
        for restore in self._wrapped:
            restore()
        self._wrapped = []


def _attribute(owner: Any, path: str) -> tuple[Any, str]:
    """(what has it, its name)."""
    *owners, name = path.split(".")
    for each in owners:
        owner = getattr(owner, each)
    return owner, name


def _replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Callable[[], None]:
    """Wrap an attribute. Returns what restores it."""
    before, is_own = getattr(owner, name), name in vars(owner)
    setattr(owner, name, wrap(before))

    def restore() -> None:
        if is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)

    return restore


def _operators(found: Sequence[Any], most: int = 10) -> tuple[Operator, ...]:
    """The operations with the most time of their own, on the GPU where they ran there."""

    def spent(each: Any) -> float:
        return float(max(each.self_cpu_time_total, each.self_device_time_total))

    whole = sum(map(spent, found)) or 1.0
    largest = sorted((each for each in found if each.key not in PHASES), key=spent, reverse=True)[:most]
    return tuple(Operator(name=each.key, share=spent(each) / whole, calls=each.count / TRACED) for each in largest)
