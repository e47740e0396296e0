"""Progress lines of a training: each has a message for people and fields for machines."""

from collections.abc import Callable, Mapping
from dataclasses import asdict

from tasks.train.state import EvaluationResult, TrainState

ProgressHook = Callable[[str, int, int, dict[str, float]], None]
"""(message, completed steps, all steps, fields).

The fields are step and steps, loss, samples_per_sec and eta (seconds, at most); those of Vitals; at an evaluation also
the other values of its EvaluationResult.
"""


class Progress:
    """Turns the state of a training into progress lines."""

    def __init__(self, hook: ProgressHook) -> None:
        self._hook = hook

    def log_step(self, state: TrainState, vitals: Mapping[str, float]) -> None:
        """Report the steps since the last evaluation. vitals: further fields, those of Vitals."""
        rate = state.rows / max(state.seconds, 1e-9)
        eta = (state.fall.end - state.step) * state.seconds / max(state.step - state.last_step, 1)
        message = f"step {state.step:,}/{state.fall.end:,}: loss {state.mean_loss:.4f}, {rate:,.0f} rows/s"
        fields = {"loss": state.mean_loss, "samples_per_sec": rate, "eta": eta, **vitals}
        self._log(f"{message}, at most {eta:.0f} s left", state, fields)

    def log_evaluation(self, result: EvaluationResult, state: TrainState, vitals: Mapping[str, float]) -> None:
        """Report an evaluation. vitals: further fields, those of Vitals."""
        steps = result.step - (state.history[-2].step if len(state.history) > 1 else 0)
        eta = (state.fall.end - result.step) * result.seconds / max(steps, 1)
        fields = {"eta": eta, **vitals, **{key: value for key, value in asdict(result).items() if value is not None}}
        metric = f", valid metric {result.valid_metric:.4f}" if result.valid_metric is not None else ""
        self._log(f"step {result.step:,}/{state.fall.end:,}: loss {result.loss:.4f}{metric}", state, fields)

    def _log(self, message: str, state: TrainState, fields: dict[str, float]) -> None:
        self._hook(message, state.step, state.fall.end, {"step": state.step, "steps": state.fall.end, **fields})
