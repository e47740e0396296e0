"""The micro-batches that a training begins with, and whether it measures them first.

A change here violates the promise of the project when a training on a CPU measures them without being asked, or one
that is repeated to the bit does.
"""

import math
from pathlib import Path

import torch

from ratchet.contracts.accumulation import Measurement
from ratchet.contracts.computing import fewest
from ratchet.contracts.fingerprint import digest_of
from ratchet.runtime.context import StageContext
from tasks.train.probe import SHARE, By, Measured

_PROCESSOR = Path("/proc/cpuinfo")
_MEASURED = frozenset(
    f"code.{name}"
    for name in ("tasks.train.computation", "tasks.train.probe", "ratchet.model.networks", "ratchet.model.bodies")
)
"""The code that is measured; train and refit share it, and what they remember."""


def beginning(ctx: StageContext, device: torch.device) -> tuple[int, By | None]:
    """(micro-batches, by what to measure them or None)."""
    asked, request = ctx.spec.train.accumulation, ctx.request
    by: By | None = "time" if asked == "fastest" else "memory" if asked == "auto" and device.type == "cuda" else None
    if by is None or request.segments or request.measured_on == machine(ctx, device):
        return request.accumulation, None
    return fewest(ctx.spec.train) if request.measured_on else request.accumulation, by


def machine(ctx: StageContext, device: torch.device) -> str:
    """What a measurement holds for: the device, its threads and processes, torch, and the code of this stage."""
    code = digest_of({name: value for name, value in ctx.request.parts.items() if name in _MEASURED})[:12]
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    ranks = ctx.spec.resources["train"].ranks
    return f"{name}, {ranks} x {torch.get_num_threads()} threads, torch {torch.__version__}, code {code}"


def _processor() -> str:
    """The model of the processor, as Linux names it."""
    lines = _PROCESSOR.read_text(encoding="utf-8").splitlines() if _PROCESSOR.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "cpu")


def say(ctx: StageContext, measured: Measured) -> None:
    """Log what was measured and chosen, in one line."""
    shown = ", ".join(f"{number}: {_shown(measured, figure)}" for number, figure in measured.figures.items())
    what = "milliseconds of a step" if measured.by == "time" else f"percent of the memory ({SHARE:.0%} of what is free)"
    ctx.log.event(
        "micro-batches",
        f"micro-batches of a step: {measured.accumulation}; {what} by their number: {shown}",
        accumulation=measured.accumulation,
    )


def record(ctx: StageContext, device: torch.device, measured: Measured | None) -> Measurement | None:
    """The same for the result."""
    if measured is None:
        return None
    figures = {number: figure if math.isfinite(figure) else None for number, figure in measured.figures.items()}
    return Measurement(
        by=measured.by, accumulation=measured.accumulation, machine=machine(ctx, device), figures=figures
    )


def _shown(measured: Measured, figure: float) -> str:
    if not math.isfinite(figure):
        return "does not fit"
    return f"{1000 * figure:.1f}" if measured.by == "time" else f"{100 * figure:.0f}"
