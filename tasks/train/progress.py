"""Progress lines of a training: each has a message for people and fields for machines."""

from collections.abc import Callable
from dataclasses import asdict

from tasks.train.state import EpochResult, TrainState

ProgressHook = Callable[[str, int, int, dict[str, float]], None]
"""(message, completed steps, all steps, fields).

The fields are epoch, epochs, step and steps (of the epoch), loss, samples_per_sec and eta (seconds); at the end of an
epoch also the other values of its EpochResult.
"""


class Progress:
    """Turns the state of a training into progress lines. rows: of one epoch."""

    def __init__(self, hook: ProgressHook, *, epochs: int, steps: int, rows: int) -> None:
        self._hook = hook
        self._epochs, self._steps, self._rows = epochs, steps, rows

    def log_step(self, state: TrainState) -> None:
        """Report the epoch in progress."""
        seconds, steps = state.epoch_seconds, max(state.step, 1)
        rate = self._rows * state.step / self._steps / max(seconds, 1e-9)
        loss = state.mean_loss
        eta = (self._epochs * self._steps - state.global_step) * seconds / steps
        message = f"epoch {state.epoch}/{self._epochs}: loss {loss:.4f}, {rate:,.0f} rows/s, {eta:.0f} s left"
        fields = {"epoch": state.epoch, "step": state.step, "epochs": self._epochs, "steps": self._steps}
        self._log(message, state.global_step, {**fields, "loss": loss, "samples_per_sec": rate, "eta": eta})

    def log_epoch(self, result: EpochResult) -> None:
        """Report a completed epoch."""
        left = (self._epochs - result.epoch) * result.seconds
        fields = {"step": self._steps, "epochs": self._epochs, "steps": self._steps, "eta": left}
        fields |= {key: value for key, value in asdict(result).items() if value is not None}
        metric = f", valid metric {result.valid_metric:.4f}" if result.valid_metric is not None else ""
        message = f"epoch {result.epoch}/{self._epochs}: loss {result.loss:.4f}{metric}"
        self._log(message, result.epoch * self._steps, fields)

    def _log(self, message: str, done: int, fields: dict[str, float]) -> None:
        self._hook(message, done, self._epochs * self._steps, fields)
