"""Figures in words, as every page writes them. A share or a change is written by `contracts.quantities.percent`."""

from ratchet.contracts.judgements import Interval
from ratchet.contracts.quantities import percent


def interval(gain: Interval | None) -> str:
    """A gain and its bounds: `+1.44 % (−0.29 % to +3.28 %)`."""  # noqa: RUF002 - the minus sign that people see
    if gain is None:
        return "not measurable"
    value, low, high = (percent(bound, signed=True) for bound in (gain.value, gain.low, gain.high))
    return f"{value} ({low} to {high})"


def seconds(value: float) -> str:
    """A duration: 0.4 s, 12 s, 3 min 20 s, 2 h 05 min."""
    if value < 10:  # noqa: PLR2004 - below it tenths matter
        return f"{value:.1f} s"
    if value < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"  # noqa: PLR2004 - the same


def count(number: int, noun: str) -> str:
    """How many of something: `1 row`, `3,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
