"""Whether the label has the mean, or its classes have the shares, that the days of the window let expect."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median

from ratchet.contracts.checks import Breach
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent
from ratchet.contracts.summaries import Check
from ratchet.pages.words import count
from tasks.validate import grid
from tasks.validate.outcome import outcome
from tasks.validate.profile import ColumnProfile, Profile

_RULE, _KEY = "label rate", "validate.label_rate"
_SHARE = 0.9
_SPREADS = 2.2
_CHANCE = 4.0
_LEAST, _LEAST_OF_FEW = 0.35, 1.0
"""As the logarithm of odds, or in standard deviations of a number: the least distance that fails."""
_FEW = 5
"""Days, below which their spread says little."""
_WEEKEND = 5


@dataclass(frozen=True, slots=True)
class _Rate:
    """A mean of rows, its place on a scale on which distances compare, the distance of chance, and the scale's unit."""

    mean: float
    rows: int
    place: float
    chance: float
    unit: float = 1.0


Rates = Mapping[str, _Rate]
"""Of one day, see `rates`."""


def immature(spec: PipelineSpec, data_date: date, day: date) -> bool:
    """Whether labels of a day may still arrive: it is one of the newest label_delay_days."""
    return day > data_date - timedelta(days=spec.validate_.label_delay_days)


def check_label_rate(day: date, days: Mapping[date, Rates], spec: PipelineSpec, breach: Breach) -> Iterator[Check]:
    """Check a day against the other days. days: the rates of those with mature labels, of the day too.

    Labels of a weekend may differ by nature, and a refused day is not among those of later nights. So a day of the
    weekend fails only if another day is one of a weekend too, and any other day only if another one is not.
    """
    ours = days[day]
    others = {other: found for other, found in days.items() if other != day and found}
    if not any(_alike(day, other) for other in others):
        breach = "warn"
    if not ours:
        return  # rules.py refuses a day without a label
    if not others:
        observed = "not compared: no other day has labels"
        allowed = "a comparison with other days"
        yield _result(day, spec, passed=False, observed=observed, allowed=allowed, breach=breach)
        return
    for name, rate in ours.items():
        usual = [found[name] for found in others.values() if name in found]
        if not usual:
            continue  # a class that no other day has is found by `in`
        middle, unit = median(one.place for one in usual), median(one.unit for one in usual)
        spread = _spread([one.place - middle for one in usual], above=rate.place > middle)
        chance = _CHANCE * math.hypot(rate.chance, median(one.chance for one in usual))
        limit = max(_SPREADS * spread, chance, unit * (_LEAST if len(usual) >= _FEW else _LEAST_OF_FEW))
        what = f"class {name}: " if name else ""
        means = [one.mean for one in usual]
        yield _result(
            day,
            spec,
            passed=abs(rate.place - middle) <= limit,
            observed=f"{what}{_show(rate.mean, spec)} of {count(rate.rows, 'labelled row')}",
            allowed=f"about {_show(median(means), spec)}; {count(len(means), 'other day')} had "
            f"{_show(min(means), spec)} to {_show(max(means), spec)}",
            breach=breach,
        )


def _alike(one: date, two: date) -> bool:
    return (one.weekday() >= _WEEKEND) == (two.weekday() >= _WEEKEND)


def _spread(distances: Sequence[float], *, above: bool) -> float:
    """How far nine of ten days lie from the middle on one side: storms make more late flights, and nothing fewer."""
    side = sorted(abs(one) for one in distances if (one >= 0) == above or one == 0)
    return side[math.ceil(_SHARE * len(side)) - 1] if side else 0.0


def rates(found: Profile, spec: PipelineSpec) -> Rates:
    """The mean of the label of a day; of several classes the share of each, by its name; of a ranking that above 0."""
    label, objective = found.columns[spec.label], spec.train.objective
    rows = label.present - label.infinite
    if rows <= 0:
        return {}
    if objective == "multiclass":
        return {str(one): _share(label.values.get(str(one), 0), rows) for one in spec.columns[spec.label].allowed or ()}
    numbers = list(_numbers(label))
    if objective != "regression":
        return {"": _share(sum(number for value, number in numbers if value > 0), rows)}
    mean = math.fsum(value * number for value, number in numbers) / rows
    deviation = math.sqrt(math.fsum(number * (value - mean) ** 2 for value, number in numbers) / rows)
    return {"": _Rate(mean, rows, mean, deviation / math.sqrt(rows), deviation)}


def _numbers(label: ColumnProfile) -> Iterator[tuple[float, int]]:
    """The values of a label with their rows; those of a histogram to 1.6 %, whole numbers up to 64 exactly."""
    for value, number in label.values.items():
        yield (float(value == "true") if value in {"true", "false"} else float(value)), number
    for place, number in label.histogram.items():
        low, high = grid.edges(place)
        yield (low if label.type == "int64" and low >= 0 else (low + high) / 2), number


def _share(part: int, rows: int) -> _Rate:
    """A share as the logarithm of its odds."""
    odds = (part + 0.5) / (rows - part + 0.5)
    return _Rate(part / rows, rows, math.log(odds), math.sqrt(1 / (part + 0.5) + 1 / (rows - part + 0.5)))


def _show(mean: float, spec: PipelineSpec) -> str:
    return f"{mean:,.4g}" if spec.train.objective == "regression" else percent(mean)


def _result(day: date, spec: PipelineSpec, *, passed: bool, observed: str, allowed: str, breach: Breach) -> Check:
    return outcome(day, _RULE, spec.label, passed=passed, observed=observed, allowed=allowed, key=_KEY, breach=breach)
