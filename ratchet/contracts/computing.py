"""Rules for how a training is computed: a precision that its device has, micro-batches that have rows."""

from collections.abc import Iterator
from typing import Any

from ratchet.contracts.misfits import Misfit


def fewest(train: Any) -> int:
    """The micro-batches that a training begins with if nothing is remembered or measured."""
    return 1 if isinstance(train.accumulation, str) else int(train.accumulation)


def computing(spec: Any) -> Iterator[Misfit]:
    """The rule for pipeline files: a step can be computed as it is asked for."""
    train = spec.train
    if train.precision == "tf32" and not getattr(spec.resources.get("train"), "gpus", 0):
        allowed = "auto, fp32, bf16, fp16"
        remedy = "set it to auto, or resources.train.gpus to 1"
        yield Misfit(("train", "precision"), "tf32 needs a GPU, and training has none", allowed, "", remedy)
    shards = 1 if train.shards == "auto" else train.shards
    if train.batch_size != "auto" and fewest(train) > (most := max(train.batch_size // (2 * shards), 1)):
        inside = f" in {shards} shards" if shards > 1 else ""
        message = f"{train.accumulation} micro-batches of a step of {train.batch_size} rows{inside}"
        yield Misfit(("train", "accumulation"), f"{message}: some would have less than two", f"1 to {most}")
