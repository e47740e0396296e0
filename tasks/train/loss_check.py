"""Whether a pipeline's own loss is the mean that a step in parts takes it for.

A change here violates the promise of the project when a step that ran out of memory goes on in parts with another loss.
"""

import torch
from torch import Tensor

from ratchet.contracts.errors import ConfigurationError
from tasks.train.data import Rows
from tasks.train.losses import Loss, Mass

_PARTS = (2, 3)
_RELATIVE, _ABSOLUTE = 1e-3, 1e-5


def refuse_other_mean(loss: Loss, mass: Mass, rows: Rows, scores: Tensor, *, where: str) -> None:
    """Raise ConfigurationError if the losses of parts, each by its share of the mass, are not the loss of all rows.

    scores: raw outputs for the rows. where: `file:line` of the loss. A loss that is not finite is not judged.
    """
    whole = float(loss_of(loss, scores, rows))
    for count in _PARTS:
        parts = rows.parts(count)
        masses = [mass(part) for part in parts]
        found = torch.split(scores, [len(part) for part in parts])
        combined = sum(
            float(loss_of(loss, some, part)) * share / sum(masses)
            for some, part, share in zip(found, parts, masses, strict=True)
        )
        if abs(combined - whole) > _RELATIVE * abs(whole) + _ABSOLUTE:
            raise ConfigurationError(
                f"{where}: loss of {len(rows)} rows is {whole:.4g}, and {combined:.4g} if they are computed in"
                f" {len(parts)} parts, as a step is that runs out of memory; allowed: a mean over rows",
                remedy="divide the sum over rows by the number of rows, not by that of groups or by the sum of weights",
            )


def loss_of(loss: Loss, scores: Tensor, rows: Rows) -> Tensor:
    """The loss of raw outputs for rows on the same device, whose labels are as the loss takes them."""
    group = None
    if rows.sizes is not None:
        numbers = torch.arange(len(rows.sizes), device=rows.sizes.device)
        group = torch.repeat_interleave(numbers, rows.sizes)
    return loss(scores, rows.label, rows.weight, group)
