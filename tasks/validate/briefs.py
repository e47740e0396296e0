"""What rules about several days need of each day: its profile without what only a sum needs.

A brief gives every rule the result that the profile gives, but for rules that add days up (see sums.py) or that compare
the distributions of two days: these read the profile.
"""

from collections.abc import Collection

from pydantic import Field
from typing_extensions import override

from tasks.validate.profile import ColumnProfile, Profile, column_of

_LARGE = 0.05
"""The least share of a value that `lost categories` is about."""
_FEWEST = 2
"""Values that tell a constant from a column that varies."""


class BriefColumn(ColumnProfile):
    """A column of a day, with its largest values and the fullest bin of its histogram alone."""

    middle: float | None = Field(None, description="The median, to 1.6 %.")
    kinds: int | None = Field(None, description="The number of distinct values, see `ColumnProfile.distinct`.")

    @property
    @override
    def median(self) -> float | None:
        return self.middle

    @property
    @override
    def distinct_values(self) -> int | None:
        return self.kinds


class Brief(Profile):
    """A day."""

    columns: dict[str, BriefColumn] = Field(default_factory=dict)  # type: ignore[assignment] # nobody adds one


def brief(found: Profile, whole: Collection[str]) -> Brief:
    """The brief of a profile. whole: columns whose counts are kept as they are."""
    columns = {name: _column(one, is_whole=column_of(name) in whole) for name, one in found.columns.items()}
    return Brief(**{**dict(iter(found)), "columns": columns})


def _column(found: ColumnProfile, *, is_whole: bool) -> BriefColumn:
    kept = {**dict(iter(found)), "hashes": (), "middle": found.median, "kinds": found.distinct_values}
    if not is_whole:
        fullest = sorted(found.histogram.items(), key=lambda each: -each[1])[:1]
        large = {
            value: rows
            for place, (value, rows) in enumerate(found.values.items())
            if place < _FEWEST or rows >= _LARGE * found.present
        }
        kept |= {"histogram": dict(fullest), "values": large}
    return BriefColumn(**kept)
