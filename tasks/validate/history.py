"""The measures of a column by day, and the difference between two days."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from markupsafe import Markup

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent
from ratchet.pages.svg import bar, dot, group, polyline, short, svg, text
from tasks.validate.label_rate import rates
from tasks.validate.profile import ColumnProfile, Profile

_WIDE, _TALL, _LEFT = 300.0, 34.0, 78.0


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of a column: its name, its value on each day, and whether it is a share."""

    name: str
    values: Mapping[date, float | None]
    is_share: bool

    @property
    def has_changed(self) -> bool:
        """Whether it differs between days."""
        return len({value for value in self.values.values() if value is not None}) > 1

    def words(self, day: date | None) -> str:
        """Its value on a day, for people."""
        value = self.values.get(day) if day else None
        return "" if value is None else percent(value) if self.is_share else short(value)


def measures(name: str, days: Mapping[date, Profile], spec: PipelineSpec) -> Iterator[Measure]:
    """The measures of a column that some day has."""
    found = {day: one.columns.get(name) for day, one in sorted(days.items())}
    shares = {"missing": True, "median": False, "distinct": False, "prediction": True}
    for measure, is_share in shares.items():
        values = {day: _value(measure, one) if one else None for day, one in found.items()}
        if any(value is not None for value in values.values()):
            yield Measure(measure, values, is_share)
    if name == spec.label and spec.train.objective != "multiclass":
        means = {day: rates(one, spec) for day, one in sorted(days.items())}
        is_share = spec.train.objective != "regression"
        values = {day: one[""].mean if one else None for day, one in means.items()}
        yield Measure("label rate" if is_share else "mean label", values, is_share)


def _value(measure: str, found: ColumnProfile) -> float | None:
    match measure:
        case "missing":
            return found.missing_share
        case "distinct":
            return None if found.distinct_values is None else float(found.distinct_values)
        case "prediction":
            return found.predictive
    return found.median


def chart(measure: Measure, today: date) -> Markup:
    """A measure by day as a small line from its least to its greatest value; the data date is a dot."""
    days = sorted(measure.values)
    known = [value for value in measure.values.values() if value is not None]
    low, high = min(known), max(known)
    step = (_WIDE - _LEFT - 50) / max(1, len(days) - 1)
    points = {
        day: (_LEFT + step * place, _TALL - 6 - (_TALL - 12) * ((value - low) / (high - low) if high > low else 0.5))
        for place, day in enumerate(days)
        if (value := measure.values[day]) is not None
    }
    parts = [text(0, _TALL / 2 + 4, measure.name[:12], "start"), polyline("reference", list(points.values()))]
    parts += [
        group("", f"{day}: {measure.words(day)}", bar("hit", x - step / 2, 0, max(step, 2.0), _TALL))
        for day, (x, _) in points.items()
    ]
    if today in points:
        parts += [dot("point", *points[today], 3), text(_WIDE, _TALL / 2 + 4, measure.words(today), "end", "label")]
    name = f"{measure.name} by day, {measure.words(days[0])} to {measure.words(days[-1])}"
    return svg(_WIDE, _TALL, parts, name)
