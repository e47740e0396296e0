"""The page of a profile, or of the difference of two: one HTML file without references to others."""

from pathlib import Path

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.pages import template
from tasks.profiling.days import lines
from tasks.validate import charts
from tasks.validate.profile import ColumnProfile, Profile, column_of

_TEMPLATE = Path(__file__).with_name("profile.html")


def render(spec: PipelineSpec, days: str, profile: Profile, against: str, other: Profile | None) -> str:
    """The page. days, against: in words; against is empty without other."""
    return template.render(
        _TEMPLATE,
        name=spec.name,
        description=spec.description,
        days=days,
        profile=profile,
        against=against,
        other=other,
        columns=[
            {
                "line": line,
                "role": spec.columns[column_of(line.name)].role if column_of(line.name) in spec.columns else "",
                "chart": charts.column(_column(profile, line.name), _column(other, line.name)),
            }
            for line in lines(profile, other)
        ],
    )


def _column(profile: Profile | None, name: str) -> ColumnProfile:
    return profile.columns.get(name, ColumnProfile()) if profile is not None else ColumnProfile()
