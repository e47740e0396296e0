"""Whether one feature alone predicts the label: then it holds what is known only afterwards."""

from collections.abc import Iterator, Mapping
from datetime import date

from ratchet.contracts.checks import Breach
from ratchet.contracts.columns import LISTS
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Check
from tasks.validate.outcome import not_compared, outcome, usual_most
from tasks.validate.profile import ColumnProfile, Profile

_RULE, _KEY = "leak", "validate.leak"
_LIMIT, _JUMP = 0.9, 0.1
_ALLOWED = f"less than {_LIMIT:g} (0: nothing, 1: perfectly)"


def check_leak(
    day: date, today: Profile, before: Mapping[date, Profile], spec: PipelineSpec, breach: Breach
) -> Iterator[Check]:
    """Check each feature of the source; lists and vectors are not measured. A feature that nearly did is a warning."""
    names = [
        name
        for name, column in spec.columns.items()
        if column.is_feature and not column.derived and column.type not in LISTS
    ]
    unknown = [name for name in names if today.columns[name].predictive is None]
    why = "too few labels, or labels of one class"
    yield from not_compared(day, _RULE, unknown, why=why, allowed="a comparison of each feature", key=_KEY)
    for name in names:
        power = today.columns[name].predictive
        if power is None:
            continue
        earlier = [found.columns.get(name, ColumnProfile()).predictive for found in before.values()]
        known = [one for one in earlier if one is not None]
        usual = f"; {min(known):.2f} to {max(known):.2f} on the other days" if known else ""
        yield outcome(
            day,
            _RULE,
            name,
            passed=power < _LIMIT,
            observed=f"predicts {spec.label} alone by {power:.3f}{usual}",
            allowed=_ALLOWED,
            key=_KEY,
            breach=breach if known and power > usual_most(known) + _JUMP else "warn",
        )
