"""In which precision the layers of a training multiply: fp32, tf32, bf16 or fp16.

Weights, the optimizer's state, gradients, losses, metrics and what numbers become stay float32 (or float64) in each of
them. Only the layers after the inputs run in autocast, and only in training: validation, evaluation and serving are
computed in fp32. With fp16 the loss is scaled, so that small gradients are no zeros (Micikevicius et al. 2018, "Mixed
precision training", 3.2).

A change here violates the promise of the project when a validation or a served score is computed in less than fp32, or
when a training in fp16 that was resumed ends with other bits on a CPU.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ratchet.contracts.errors import ConfigurationError

AUTO, FP32, TF32, FP16 = "auto", "fp32", "tf32", "fp16"
_AUTOCAST = {"bf16": torch.bfloat16, FP16: torch.float16}
_AMPERE = 8
"""The first major compute capability of GPUs that multiply bf16 and tf32 in hardware."""
_GROWS_AFTER = 2_000
"""Steps after which the scale of the loss is doubled, as torch's GradScaler does."""


def resolve(asked: str, device: torch.device) -> str:
    """The precision on a device. auto: bf16 on a GPU that has it, otherwise fp32.

    Raises ConfigurationError for one that the device has not.
    """
    has_it = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= _AMPERE
    if asked == AUTO:
        return "bf16" if has_it else FP32
    if asked == TF32 and not has_it:
        raise ConfigurationError(
            "train.precision: tf32 needs a GPU of compute capability 8.0 or more; allowed here: auto, fp32, bf16, fp16",
            remedy="set train.precision to auto, or use such a GPU",
        )
    if asked == "bf16" and device.type == "cuda" and not has_it:
        raise ConfigurationError(
            "train.precision: bf16 needs a GPU of compute capability 8.0 or more; allowed here: auto, fp32, fp16",
            remedy="set train.precision to auto or fp16, or use such a GPU",
        )
    return asked


@dataclass(slots=True, kw_only=True)
class LossScale:
    """What the loss of fp16 is multiplied with: halved by a gradient that overflows, doubled after 2,000 good steps.

    good: steps since it changed. skipped: steps whose update was left out.
    """

    scale: float = 65_536.0
    good: int = 0
    skipped: int = 0

    def accepts(self, norm: Tensor) -> bool:
        """Whether a step may be taken. norm: of its gradient. Waits for the device.

        At a scale of 1 it is not the scale that makes a gradient infinite: then the step counts, and is an error.
        """
        if not bool(torch.isfinite(norm)) and self.scale > 1:
            self.scale, self.good = self.scale / 2, 0
            self.skipped += 1
            return False
        self.good += 1
        if self.good == _GROWS_AFTER:
            self.scale, self.good = self.scale * 2, 0
        return True


class Precision:
    """The precision of a network's layers in training. name: fp32, tf32, bf16 or fp16; it may change between steps."""

    def __init__(self, name: str = FP32) -> None:
        self.name, self.loss_scale = name, LossScale()

    @property
    def scale(self) -> float:
        """What a loss is multiplied with before its gradient is computed."""
        return self.loss_scale.scale if self.name == FP16 else 1.0

    def apply_to(self, body: nn.Module, device: str) -> None:
        """Let the layers run in autocast while they train. Their outputs are float32. device: its type.

        Weights are rounded at each use: with torch's cache of them, gradients would be added up in the fewer bits.
        """
        plain = body.forward

        def forward(*values: Any, **named: Any) -> Any:
            kind = _AUTOCAST.get(self.name) if body.training else None
            if kind is None:
                return plain(*values, **named)
            with torch.autocast(device, dtype=kind, cache_enabled=False):
                out = plain(*values, **named)
            return out.float() if isinstance(out, Tensor) else out

        body.forward = forward

    @contextmanager
    def multiplying(self) -> Iterator[None]:
        """Let a GPU multiply float32 matrices in tf32, if it is that; afterwards it is as before."""
        if self.name != TF32:
            yield
            return
        before, of_cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
            torch.backends.cudnn.allow_tf32 = of_cudnn

    def unscale(self, weights: Iterable[Tensor]) -> None:
        """Divide the gradients by the scale, a power of two."""
        if self.scale == 1.0:
            return
        for weight in weights:
            if weight.grad is not None:
                weight.grad.div_(self.scale)

    def accepts(self, norm: Tensor) -> bool:
        """Whether a step may be taken. norm: of its gradient. Only with fp16 there is another answer than yes."""
        return self.name != FP16 or self.loss_scale.accepts(norm)
