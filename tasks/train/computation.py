"""Raw outputs, the loss and its gradients for rows, computed in micro-batches to bound the memory.

A change here violates the promise of the project when a step in micro-batches differs from that of the
whole batch by more than rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ratchet.contracts.step_rows import CHUNK_ROWS
from ratchet.model.networks import Network
from tasks.train.data import Rows
from tasks.train.losses import Loss, Mass
from tasks.train.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLoss:
    """The loss of a batch, on the network's device, and the mass that it is a mean over."""

    loss: Tensor
    mass: float


class Computation:
    """Rows are read from the host's memory; results stay on the network's device."""

    def __init__(self, network: Network, settings: Settings, *, loss: Loss, mass: Mass) -> None:
        self._network = network
        self._loss, self._mass = loss, mass
        self._standardise = settings.objective == "regression"
        self._parts = settings.accumulation
        self._chunk_rows = max(max(settings.batch_size, CHUNK_ROWS) // settings.accumulation, 1)
        self._device = next(network.parameters()).device

    def add_gradients(self, batch: Rows) -> BatchLoss:
        """Sum the gradients of a step over its micro-batches. Returns the loss of the whole batch, to rounding."""
        parts = batch.parts(self._parts)
        masses = [self._mass(part) for part in parts]
        if len(parts) == 1:
            return BatchLoss(loss=self._backward(batch, 1.0), mass=masses[0])
        losses = [self._backward(part, share) for part, share in zip(parts, _shares(masses), strict=True)]
        return BatchLoss(loss=torch.stack(losses).sum(), mass=sum(masses))

    def _backward(self, part: Rows, share: float) -> Tensor:
        rows = part.to(self._device)
        loss = self.loss(self._network.scores(rows.numeric, rows.places), rows)
        if share != 1.0:
            loss = loss * share
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no types here
        return loss.detach()

    def scores(self, rows: Rows) -> Tensor:
        """Raw outputs for any number of rows, computed in chunks of a micro-batch."""
        chunks = [slice(begin, begin + self._chunk_rows) for begin in range(0, len(rows), self._chunk_rows)]
        return torch.cat(
            [
                self._network.scores(rows.numeric[chunk].to(self._device), rows.places[chunk].to(self._device))
                for chunk in chunks
            ]
        )

    def loss(self, scores: Tensor, rows: Rows) -> Tensor:
        """The loss of raw outputs for the rows that they belong to."""
        label = rows.label.to(self._device)
        weight = None if rows.weight is None else rows.weight.to(self._device)
        if self._standardise:
            label = ((label.double() - self._network.label_mean) / self._network.label_scale).float()
        group = None
        if rows.sizes is not None:
            sizes = rows.sizes.to(self._device)
            group = torch.repeat_interleave(torch.arange(len(sizes), device=self._device), sizes)
        return self._loss(scores, label, weight, group)


def _shares(masses: Sequence[float]) -> list[float]:
    """Each part's share of the whole mass; all 0 if no row counts: every loss is zero."""
    whole = sum(masses) or 1.0
    return [mass / whole for mass in masses]
