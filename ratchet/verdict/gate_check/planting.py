"""Models with a known true gain, made from those of a run.

One of the two models is moved until the true gain on all units is the wanted one. The differences between the models
keep their skew and their tails.

- A mean over units (ndcg, mrr, logloss, mae, accuracy; rmse by its squares): the same amount is added to every unit of
  one model. The differences between the models are shifted, and keep all their moments but the first.
- The order of all rows (auc, pr_auc): on the scale of normal scores, the same amount is added to the positive rows of
  one model.
- Any other metric: the scores of one model go a share of the way to the labels.

A change here violates the promise of the project when the true gain is above the one that is asked for: a check of the
gate would then count right promotions as false ones, or wrong ones as right.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ratchet.contracts.gate import family, lower_is_better
from ratchet.metrics.metrics import Floats, Measurement
from ratchet.verdict.gate_check.pair import Pair, ScoredPair, SummedPair, gain
from ratchet.verdict.gate_check.sample import OF_ORDER

TOLERANCE = 0.1
"""Standard errors of a night's gain that the planted one may be below the wanted: with few positives, the area under a
curve has steps."""

_EXACT = 1e-9
_FARTHEST = 16.0
"""A shift of normal scores after which every positive row is above every other one."""
_HALVINGS = 40


def planted(pair: Pair, wanted: float, *, spread: float) -> Pair | None:
    """The pair with this true gain, or None where no help to one model leads to it.

    The true gain is never above it. spread: the standard error of a night's gain.
    """
    found = _shifted(pair, wanted) if isinstance(pair, SummedPair) else _helped(pair, wanted)
    if found is None or found.whole is None:
        return None
    off = wanted - gain(found.whole, pair.metric)
    return found if -_EXACT <= off <= max(_EXACT, TOLERANCE * spread) else None


def _shifted(pair: SummedPair, wanted: float) -> Pair | None:
    ours, theirs = pair.candidate.value, pair.baseline.value
    lower = lower_is_better(pair.metric)
    factor = 1 - wanted if lower else 1 + wanted
    if factor <= 0 or theirs <= 0:
        return None
    if ours <= theirs * factor:
        return replace(pair, candidate=_raised(pair.candidate, theirs * factor, pair.metric))
    return replace(pair, baseline=_raised(pair.baseline, ours / factor, pair.metric))


def _raised(measurement: Measurement, wanted: float, metric: str) -> Measurement:
    """Each unit adds the same to the mean, so that the metric has the wanted value. Sums stay above zero."""
    power = 2 if family(metric) == "rmse" else 1
    sums = measurement.sums
    return _with(measurement, sums[:, 0] + (wanted**power - measurement.value**power) * sums[:, 1])


def _helped(pair: Pair, wanted: float) -> Pair | None:
    """Bisection of the help that one model needs."""
    if not isinstance(pair, ScoredPair) or pair.whole is None:
        return None
    candidate = gain(pair.whole, pair.metric) <= wanted
    farthest = _FARTHEST if family(pair.metric) in OF_ORDER else 1.0

    def with_help(amount: float) -> ScoredPair:
        if candidate:
            return replace(pair, candidate=_nearer(pair, pair.candidate, amount))
        return replace(pair, baseline=_nearer(pair, pair.baseline, amount))

    def not_above(amount: float) -> bool:
        measured = with_help(amount).whole
        return measured is not None and gain(measured, pair.metric) <= wanted

    return with_help(_boundary(not_above, farthest, rising=candidate))


def _boundary(holds: Callable[[float], bool], farthest: float, *, rising: bool) -> float:
    """The amount of help at which the gain passes the wanted one, on the side where it is not above it.

    rising: the gain grows with the help, so that no help at all is on that side.
    """
    inside, outside = (0.0, farthest) if rising else (farthest, 0.0)
    if holds(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


def _nearer(pair: ScoredPair, score: Floats, amount: float) -> Floats:
    label = pair.rows.label
    if family(pair.metric) in OF_ORDER:
        return np.asarray(score + amount * (label > 0))
    truth = label if score.ndim == 1 else np.eye(score.shape[1])[label.astype(np.int64)]
    return np.asarray(score + amount * (truth - score))


def widened(pair: Pair) -> Pair:
    """Two models whose values are farther apart by the square root of two, around the same middle.

    Where several candidates and one production take either value by coins of their own, the gain of a candidate then
    varies as much as that between the models of the run; without it by half.
    """
    if isinstance(pair, SummedPair):
        ours, theirs = _apart(pair.candidate.sums[:, 0], pair.baseline.sums[:, 0])
        return replace(pair, candidate=_with(pair.candidate, ours), baseline=_with(pair.baseline, theirs))
    if isinstance(pair, ScoredPair) and family(pair.metric) in OF_ORDER:
        ours, theirs = _apart(pair.candidate, pair.baseline)
        return replace(pair, candidate=ours, baseline=theirs)
    return pair


def _apart(ours: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    middle, half = (ours + theirs) / 2, (ours - theirs) / math.sqrt(2)
    return middle + half, middle - half


def _with(measurement: Measurement, totals: Floats) -> Measurement:
    sums = measurement.sums.copy()
    sums[:, 0] = totals
    return replace(measurement, value=float(measurement.combine(sums.sum(axis=0))), sums=sums)
