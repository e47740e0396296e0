"""The training of boosted trees: grow, evaluate, save; then grow as many on all days.

First trees are grown on the training days, and the metric on the validation days says how many are best. Then the model
is made: as many trees, of training and validation days.

A change here violates the promise of the project when a resumed run ends with other trees than an uninterrupted one.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from lightgbm import Booster, Dataset
from numpy.typing import NDArray

from ratchet.model.boosted import Boosted
from tasks.train.checkpoint import Checkpoint, Checkpointer
from tasks.train.data import Rows
from tasks.train.hooks import Hooks
from tasks.train.loop import TrainResult
from tasks.train.settings import Recipe, Segment, Settings
from tasks.train.state import EvaluationResult
from tasks.train.step_losses import NotFinite
from tasks.train.stopping import end_after_save
from tasks.train.timing import Interval
from tasks.train.trees import Grower, TreeSettings, TreeText, loss_of
from tasks.train.vitals import most_mib

EVERY = 10
"""Rounds between two evaluations."""
_LOG_EVERY_S = 1.0


@dataclass(kw_only=True, eq=False)
class BoostingState:
    """Where a training is. rounds: those of the trees of this part. wanted: the rounds of the model; 0 in the search.

    searched: rounds of the search. history, best: as in state.TrainState. trees: when it was saved.
    """

    rounds: int = 0
    wanted: int = 0
    searched: int = 0
    history: list[EvaluationResult] = field(default_factory=list)
    best: int = 0
    trees: TreeText = field(default_factory=TreeText)

    @property
    def step(self) -> int:
        """Rounds of both parts."""
        return self.searched + self.rounds if self.wanted else self.rounds

    def state_dict(self, trees: TreeText) -> dict[str, Any]:
        """All fields: a tensor, and values that JSON can hold."""
        text = torch.frombuffer(bytearray(trees.to_bytes()), dtype=torch.uint8)
        rest = {name: value for name, value in vars(self).items() if name not in {"history", "trees"}}
        return {**rest, "history": [asdict(each) for each in self.history], "trees": text}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "BoostingState":
        """What `state_dict` was called on."""
        history = [EvaluationResult(**each) for each in state["history"]]
        return cls(**{**state, "history": history, "trees": TreeText.parse(state["trees"].numpy().tobytes().decode())})


class _Pace:
    """Measures rounds, in laps. rows: read in each."""

    def __init__(self, step: int, rows: int) -> None:
        self._step, self._rows, self._then = step, rows, time.perf_counter()

    def lap(self, step: int) -> tuple[float, float, float]:
        """(rounds, seconds, rows a second) since the last lap."""
        rounds, seconds = step - self._step, max(time.perf_counter() - self._then, 1e-9)
        self._step, self._then = step, self._then + seconds
        return rounds, seconds, rounds * self._rows / seconds


class Boosting:
    """One training. `run` takes it to its end, from its newest checkpoint if there is one; then the model has trees.

    settings: steps are rounds, and the recipe's fall is the rounds of a model to repeat. shape: what LightGBM is asked
    for. train, valid, both: as for loop.Loop. alive: called after each round with the number of all rounds so far.
    """

    def __init__(
        self,
        model: Boosted,
        settings: Settings,
        shape: TreeSettings,
        *,
        train: Rows,
        valid: Rows | None,
        both: Rows,
        checkpointer: Checkpointer,
        hooks: Hooks,
        alive: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._model, self._settings, self._shape = model, settings, shape
        self._train, self._valid, self._both = train, valid, both
        self._checkpointer, self._hooks, self._alive = checkpointer, hooks, alive
        self._grower = Grower(model, shape, both)
        self._state = BoostingState()
        self._log_due, self._save_due = Interval(_LOG_EVERY_S), Interval(settings.checkpoint_every_s)
        self._saved = 0

    def run(self) -> TrainResult:
        """Train. Raises NotFinite, and on a notice to stop StopTraining or SaveFailed."""
        resumed_from = self._resume()
        self._hooks.begun(resumed_from, ())
        state, recipe = self._state, self._settings.recipe
        if recipe is not None:
            state.wanted = max(round(recipe.fall), 1)
        elif not state.wanted:
            self._search()
        trees = self._grow(self._both, None, state.wanted)
        self._model.body.fit(trees.to_bytes())
        self._checkpointer.close()
        return TrainResult(
            history=tuple(state.history),
            best=state.best or len(state.history),
            recipe=Recipe(level=state.history[state.best - 1].step if state.best else 0, fall=state.rounds),
            resumed_from=resumed_from,
            loading=0.0,
            trace=np.array([trees.sums("split_gain"), trees.sums("leaf_value")], np.float32).T,
            segments=(Segment(begin=0, accumulation=1, device="cpu", threads=self._shape.threads),),
            skipped=0,
        )

    def _search(self) -> None:
        """Find out how many rounds are best."""
        state = self._state
        if self._valid is not None:
            self._grow(self._train, self._valid, self._settings.steps)
        searched = state.rounds
        state.wanted = state.history[state.best - 1].step if state.best else self._shape.unmeasured
        state.searched, state.rounds, state.trees = searched, 0, TreeText()
        if searched:
            self._save(state.trees)

    def _grow(self, rows: Rows, valid: Rows | None, most: int) -> TreeText:
        """Grow trees up to so many rounds, or to where no split is left, or to a plateau of the metric."""
        state = self._state
        begun = state.trees

        def alive() -> None:
            self._alive(state.step)
            if self._hooks.stopping():
                self._stop(begun)

        booster = self._grower.begin(rows, valid, begun, alive)
        pace, watch = _Pace(state.step, len(rows)), _Pace(state.step, len(rows))
        end = state.searched + most if state.wanted else most

        def grown() -> TreeText:
            return (begun + TreeText.of(booster)).first(state.rounds * self._shape.classes)

        is_complete = False
        while not is_complete and state.rounds < most and not (valid is not None and self._is_over):
            if self._hooks.stopping():
                self._stop(grown())
            is_complete = booster.update()  # then no split was left
            state.rounds += not is_complete or not state.rounds
            self._alive(state.step)
            self._measure(booster, valid, pace, is_last=is_complete or state.rounds == most)
            if self._log_due.is_due():
                self._log(loss_of(booster.eval_train()), end, watch)
            if self._is_save_due():
                self._save(grown())
        if valid is None:
            self._note(booster, None, None, pace)
        self._log(state.history[-1].loss, end, watch)
        return grown()

    @property
    def _is_over(self) -> bool:
        """Whether patience has run out, or the metric has no value."""
        state = self._state
        return bool(state.history) and (not state.best or len(state.history) - state.best >= self._settings.patience)

    def _measure(self, booster: Booster, valid: Rows | None, pace: _Pace, *, is_last: bool) -> None:
        """Evaluate every so many rounds. Without validation days note the first, whose loss the refit's guard needs."""
        state = self._state
        if valid is not None and (is_last or state.rounds % EVERY == 0):
            self._evaluate(booster, valid, pace)
        elif valid is None and not state.history and not is_last:
            self._note(booster, None, None, pace)

    def _evaluate(self, booster: Booster, valid: Rows, pace: _Pace) -> None:
        """Measure on the validation days."""
        state = self._state
        found: list[float | None] = []

        def measure(scores: NDArray[np.float64], _: Dataset) -> tuple[str, float, bool]:
            found.append(self._hooks.metric(valid, self._final(scores)))
            return "metric", 0.0, True

        loss = loss_of(booster.eval_valid(measure))
        metric = found[0] if found[0] is not None and math.isfinite(found[0]) else None
        best = state.history[state.best - 1].valid_metric if state.best else None
        self._note(booster, loss if math.isfinite(loss) else None, metric, pace)
        if metric is not None and (
            best is None or (metric < best if self._settings.lower_is_better else metric > best)
        ):
            state.best = len(state.history)
        elif not state.best:
            self._hooks.warn(
                f"the validation metric has no value on the {len(valid):,} validation rows, as where all labels are the"
                f" same: it cannot say how many rounds are best, and the model has {self._shape.unmeasured}"
            )

    def _final(self, scores: NDArray[np.float64]) -> torch.Tensor:
        """LightGBM has turned its sums into probabilities; a regression is on the label's own scale here."""
        found = torch.from_numpy(scores)
        if self._settings.objective != "regression":
            return found
        return found * self._model.label_scale + self._model.label_mean

    def _note(self, booster: Booster, valid_loss: float | None, metric: float | None, pace: _Pace) -> None:
        """Add to the history."""
        state = self._state
        loss = loss_of(booster.eval_train())
        if not math.isfinite(loss):
            raise NotFinite(f"the loss is {loss} after round {state.rounds:,}")
        _, seconds, rate = pace.lap(state.step)
        state.history.append(
            EvaluationResult(
                step=state.step,
                epoch=float(state.step),
                loss=loss,
                valid_loss=valid_loss,
                valid_metric=metric,
                seconds=round(seconds, 4),
                samples_per_sec=round(rate, 1),
            )
        )

    def _log(self, loss: float, end: int, watch: _Pace) -> None:
        """A line of progress, with the fields that progress.Progress has."""
        state = self._state
        rounds, seconds, rate = watch.lap(state.step)
        left = max(end - state.step, 0) * seconds / max(rounds, 1)
        fields = {
            "step": state.step,
            "steps": end,
            "epoch": float(state.step),
            "loss": loss,
            "samples_per_sec": rate,
            "eta": left,
            "learning_rate": self._shape.rate,
            "memory_mib": most_mib(),
        }
        if self._checkpointer.durations:
            fields["checkpoint_duration_ms"] = 1000 * self._checkpointer.durations[-1]
        metric = ""
        last = state.history[-1] if state.history else None
        if last is not None and last.valid_metric is not None and last.valid_loss is not None:
            fields |= {"valid_loss": last.valid_loss, "valid_metric": last.valid_metric}
            metric = f", valid metric {last.valid_metric:.4f}"
        part = "the model's rounds" if state.wanted else "looking for the best number of rounds"
        message = (
            f"round {state.step:,}/{end:,}: loss {loss:.4f}{metric}, {rate:,.0f} rows/s, at most {left:.0f} s left"
        )
        self._hooks.progress(f"{message} ({part})", state.step, end, fields)

    def _is_save_due(self) -> bool:
        steps = self._settings.checkpoint_steps
        return self._save_due.is_due() or (steps is not None and self._state.step - self._saved >= steps)

    def _save(self, trees: TreeText) -> None:
        state = self._state
        self._saved = state.step
        self._checkpointer.save(Checkpoint(step=state.step, state=state.state_dict(trees), moving=frozenset({"trees"})))

    def _stop(self, trees: TreeText) -> None:
        """Save, and end. Raises StopTraining if that succeeds, otherwise SaveFailed."""
        self._save(trees)
        end_after_save(self._checkpointer, f"round {self._state.step}")

    def _resume(self) -> int | None:
        """Restore the newest checkpoint. Returns its step, or None without a checkpoint."""
        found = self._checkpointer.newest()
        if found is None:
            return None
        self._state = BoostingState.of(found.state)
        self._saved = self._state.step
        return found.step
