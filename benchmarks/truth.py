"""Expected values of metrics by quadrature: what the worlds of the gate benchmark know of their models.

Integrals over normal variables by Gauss and Hermite's rule with NODES nodes; what is integrated is smooth.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NODES = 96
_PLACES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(NODES)
_SHARES = _WEIGHTS / _WEIGHTS.sum()
_STEPS = 60


def normal_mean(value: Callable[[Floats], Floats], deviation: float, centre: float = 0.0) -> float:
    """The mean of a function of a normal variable."""
    return float(_SHARES @ value(centre + deviation * _PLACES))


def normal_mean_of_two(value: Callable[[Floats, Floats], Floats], first: float, second: float, centre: float) -> float:
    """The mean of a function of two independent normal variables; centre: of the first one, the other's is 0."""
    one, other = centre + first * _PLACES[:, None], second * _PLACES[None, :]
    return float(_SHARES @ value(one, other) @ _SHARES)


def below(value: Floats) -> Floats:
    """The standard normal distribution function."""
    flat = [0.5 * math.erfc(-one / math.sqrt(2)) for one in np.ravel(value)]
    return np.reshape(np.array(flat), np.shape(value))


def sigmoid(value: Floats) -> Floats:
    """1 / (1 + exp(-value))."""
    return np.asarray(0.5 * (1 + np.tanh(value / 2)))


def surprise(logit: float, noise: float, spread: float) -> float:
    """Expected cross-entropy where the model's logit is the true one and normal noise; spread: of the true logit."""

    def loss(true: Floats, error: Floats) -> Floats:
        return np.asarray(np.logaddexp(0, true + error) - sigmoid(true) * (true + error))

    return normal_mean_of_two(loss, spread, noise, logit)


def excess(logit: float, shift: float, spread: float) -> float:
    """The mean of probability less frequency where the model's logit is the true one and a shift."""
    return normal_mean(lambda true: sigmoid(true + shift) - sigmoid(true), spread, logit)


def discounted(skill: float, deviation: float, rows: int) -> float:
    """Expected NDCG@rows of a group with one positive, its score normal, those of the others standard normal."""
    ranks = np.arange(rows)
    ways = np.array([math.comb(rows - 1, above) for above in ranks], dtype=np.float64)

    def value(score: Floats) -> Floats:
        over = below(-score)[:, None]
        chance = ways * over**ranks * (1 - over) ** (rows - 1 - ranks)
        return np.asarray(chance @ (1 / np.log2(ranks + 2.0)))

    return normal_mean(value, deviation, skill)


def area(skills: dict[float, float]) -> float:
    """The AUC where positives have these mean scores with these shares, negatives 0, all of them unit variance."""
    return sum(share * float(below(np.array(mean / math.sqrt(2)))) for mean, share in skills.items())


def precision(skills: dict[float, float], prevalence: float) -> float:
    """The average precision of infinitely many rows, with scores as in `area`."""

    def at(score: Floats) -> Floats:
        hits = sum((share * below(mean - score) for mean, share in skills.items()), np.zeros(score.shape))
        misses = below(-score)
        return np.asarray(prevalence * hits / (prevalence * hits + (1 - prevalence) * misses))

    return sum(share * normal_mean(at, 1.0, mean) for mean, share in skills.items())


def solve(value: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where a rising function has a value, by bisection. Raises ValueError where that is not in between."""
    if not value(low) <= wanted <= value(high):
        raise ValueError(f"no model of this world has the value {wanted:g}: from {value(low):g} to {value(high):g}")
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if value(middle) < wanted else (low, middle)
    return (low + high) / 2
