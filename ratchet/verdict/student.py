"""Student's t through the normal distribution, for spreads that are estimated from few units."""

import math
from statistics import NormalDist

NORMAL = NormalDist()
_DEEPEST = 1e-12
"""With two units or three the tail is so far out that 1 - tail would be 1, which has no quantile."""


def student_quantile(tail: float, degrees: float) -> float:
    """The value that Student's t exceeds with probability `tail`.

    Cornish and Fisher's expansion in the normal quantile; off by under 1 % from 5 degrees on.
    """
    z = -NORMAL.inv_cdf(tail)
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def student_below(value: float, degrees: float) -> float:
    """The probability that Student's t is below a value (Wallace 1959; off by under 0.002 from 5 degrees on)."""
    scale = (8 * degrees + 1) / (8 * degrees + 3)
    size = scale * math.sqrt(degrees * math.log1p(value**2 / degrees))
    return NORMAL.cdf(math.copysign(size, value))


def expanded_tail(tail: float, units: float) -> float:
    """The tail of the percentile interval that has the wanted coverage with few units (Hesterberg 2015).

    A percentile interval is too narrow by the factor that Student's t and n - 1 make up for; the tail is pushed out
    accordingly.
    """
    degrees = units - 1
    return max(NORMAL.cdf(-student_quantile(tail, degrees) * math.sqrt(units / degrees)), _DEEPEST)
