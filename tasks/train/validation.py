"""The loss and the metric on the rows for validation: the first rank computes them from the scores of all."""

import math

import torch
from torch import Tensor

from ratchet.model.networks import Network
from tasks.train.computation import Computation
from tasks.train.data import Rows
from tasks.train.hooks import Hooks
from tasks.train.shards import Shards
from tasks.train.state import TrainState
from tasks.train.step_losses import NotFinite


class Validation:
    """rows: for validation, or None. before: the number of training rows; those for validation come after them."""

    def __init__(
        self,
        network: Network,
        rows: Rows | None,
        shards: Shards,
        computation: Computation,
        hooks: Hooks,
        *,
        before: int,
    ) -> None:
        self._network, self._rows, self._before = network, rows, before
        self._shards, self._computation, self._hooks = shards, computation, hooks

    def measure(self, state: TrainState) -> tuple[float | None, float | None]:
        """(loss, metric); None where one is not finite, or without rows. Raises NotFinite for scores that are not.

        None, too, while the learning rate falls: then they are trained on, and a metric on them says nothing.
        """
        rows = self._rows
        if rows is None:
            return None, None
        self._network.eval()
        with torch.inference_mode():
            raw = self._shards.scores(rows)
            self._check_scores(raw, state)
            if state.step > state.fall.begin:
                return None, None
            loss, metric = self._shards.share(lambda: self._loss_and_metric(rows, raw, state), 2)
        return loss, metric

    def _loss_and_metric(self, rows: Rows, raw: Tensor, state: TrainState) -> tuple[float | None, float | None]:
        loss = self._computation.mean_loss(raw, rows)
        metric = self._hooks.metric(rows, self._hooks.finish(raw))
        if metric is None and not state.history:
            self._hooks.warn(
                f"the validation metric has no value on the {len(rows):,} validation rows, as where all labels are the"
                " same: early stopping is off, and training takes all of its steps"
            )
        return self._finite("loss", loss, state), self._finite("metric", metric, state)

    def _check_scores(self, raw: Tensor, state: TrainState) -> None:
        bad = (~torch.isfinite(raw.reshape(len(raw), -1))).any(1)
        if bool(bad.any()):
            rows = bad.nonzero().flatten().cpu().numpy() + self._before
            raise NotFinite(
                f"the scores of {len(rows):,} of {len(raw):,} validation rows are not finite after step {state.step:,}",
                rows=rows,
            )

    def _finite(self, name: str, value: float | None, state: TrainState) -> float | None:
        """The value, or None and a warning if it is not finite."""
        if value is None or math.isfinite(value):
            return value
        self._hooks.warn(f"the validation {name} of step {state.step:,} is {value}, and does not count")
        return None
