"""When the learning rate rises, stays level and falls: warm-up, stable, decay (Hu et al. 2024, arXiv 2404.06395).

The fall comes when the validation metric no longer gets better, or when the steps are used up, whichever is first.
"""

from dataclasses import dataclass

_WARM_UP = 100
"""Steps in which the rate rises, at most."""
_WARM_UP_SHARE = 0.05
_FALL_SHARE = 0.2
"""Share of all steps in which the rate falls, where they are used up; an early fall is no longer."""
_FALL_OF_BEST = 0.5
"""Steps of an early fall for each step up to the best evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """The last part of a training.

    begin: its first step, from 0. steps: how many it has. level: the step whose weights it begins with.
    """

    begin: int
    steps: int
    level: int

    @property
    def end(self) -> int:
        """The steps of the whole training."""
        return self.begin + self.steps


def planned_fall(*, steps: int, epochs: int, level_epoch: int, fall_epoch: int) -> Fall:
    """The fall of a training that uses up its `steps` or its `epochs`, whichever is less.

    level_epoch, fall_epoch: the steps of an epoch before and in the fall. With `epochs` both parts are whole epochs, so
    that each epoch meets every row.
    """
    falling = max(1, round(epochs * _FALL_SHARE))
    whole = Fall(
        begin=(epochs - falling) * level_epoch, steps=falling * fall_epoch, level=(epochs - falling) * level_epoch
    )
    if whole.end <= steps:
        return whole
    falling = max(1, round(steps * _FALL_SHARE))
    return Fall(begin=steps - falling, steps=falling, level=steps - falling)


def early_fall(step: int, *, best: int, epoch: int, most: int) -> Fall:
    """The fall of a training whose metric was best at step `best` of the `step` steps that it has taken.

    It has the steps of an epoch at least, so that it meets every row, and at most `most`.
    """
    return Fall(begin=step, steps=min(max(round(best * _FALL_OF_BEST), epoch), most), level=best)


def warm_up(total: int) -> int:
    """The steps in which the rate rises."""
    return max(1, min(_WARM_UP, round(total * _WARM_UP_SHARE)))


def learning_rate(step: int, *, total: int, fall: Fall, peak: float) -> float:
    """The rate of step `step` (from 0) of a training that has at most `total` steps."""
    rising = min(1.0, (step + 1) / warm_up(total))
    falling = 1.0 if step < fall.begin else 1.0 - (step - fall.begin) / fall.steps
    return peak * min(rising, falling)
