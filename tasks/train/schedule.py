"""The learning rate of each step."""

import math

_WARM_UP = 0.05
"""Share of all steps in which the rate rises."""
_FLOOR = 0.1
"""The last step's share of the peak rate."""


def learning_rate(step: int, *, total: int, peak: float) -> float:
    """The rate of step `step` (from 0) of `total`: a linear rise to `peak`, then a linear fall to a tenth of it."""
    warm_up = max(1, math.ceil(total * _WARM_UP))
    left = 1 - (step - warm_up) / max(1, total - warm_up)
    factor = (step + 1) / warm_up if step < warm_up else _FLOOR + (1 - _FLOOR) * left
    return peak * factor
