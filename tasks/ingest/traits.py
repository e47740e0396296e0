"""What a day's source shows beside its rows: columns that are not declared, and which timestamps have a zone.

The rule of zones: a timestamp with a zone is converted to UTC, and one without a zone is in UTC. So UTC goes with both.
A column may not have another zone on some days of a window and none on others: its hours would move from day to day.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ratchet.contracts.errors import DataRejected

_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00", "-00:00"})
_ZONE_IN_TEXT = r":\d\d(?:\.\d+)?\s?(?:Z|[+-]\d\d(?::?\d\d)?)$"
_DATE_IN_TEXT = r"^\s*\d+-?\d\d-?\d\d\s*$"
_UTC_IN_TEXT = r"(?:Z|[+-]00(?::?00)?)$"
_REMEDY = "deliver every day with a zone, or every day in UTC"


@dataclass(slots=True, kw_only=True)
class SourceTraits:
    """Collected while the files or the rows of one day are read.

    extra: columns that are not declared. zones: for each timestamp column with values: True if they have a zone other
    than UTC, False if they have none; no entry if they are in UTC. forms: how CSV files are written, where that is
    unusual. dates: the timestamp columns of which the source has a date, without a time of day.
    unsearched: columns by which purged rows would be found, and which the source has no more. moments: the source's
    timestamp columns that decide what is joined: each of their values is looked at.
    """

    extra: set[str] = field(default_factory=set)
    zones: dict[str, bool] = field(default_factory=dict)
    forms: set[str] = field(default_factory=set)
    dates: set[str] = field(default_factory=set)
    unsearched: set[str] = field(default_factory=set)
    moments: frozenset[str] = frozenset()

    def note(self, values: Any, column: str, *, day: date, name: str) -> None:
        """Note the zone of a batch of timestamps, or of text that holds them. name: of the file, table or query.

        Raises DataRejected if an earlier batch of the day differs.
        """
        if _are_dates(values):
            self.dates.add(column)
        has_zone = _has_zone(values)
        if has_zone is None or self.zones.setdefault(column, has_zone) == has_zone:
            return
        raise DataRejected(
            f"{day}: {name}: column {column} has timestamps {_words(has_zone=has_zone)}, and others of this day are "
            f"{_words(has_zone=not has_zone)}",
            remedy=_REMEDY,
        )


def refuse_mixed_zones(days: Mapping[date, Mapping[str, bool]]) -> None:
    """Refuse a window in which a timestamp column has a zone on some days only. days: `SourceTraits.zones` of each.

    Raises DataRejected that names the column and the newest day of each kind.
    """
    for column in sorted({column for zones in days.values() for column in zones}):
        newest = {zones[column]: day for day, zones in sorted(days.items()) if column in zones}
        if len(newest) > 1:
            raise DataRejected(
                f"column {column} has a time zone on {newest[True]} and none on {newest[False]}", remedy=_REMEDY
            )


def _words(*, has_zone: bool) -> str:
    return "with a zone" if has_zone else "without a zone"


def _are_dates(values: Any) -> bool:
    """Whether a batch has dates, or a text without a time of day."""
    if not pa.types.is_string(values.type):
        return bool(pa.types.is_date(values.type))
    return bool(pc.any(pc.match_substring_regex(values, _DATE_IN_TEXT)).as_py())


def _has_zone(values: Any) -> bool | None:
    """Whether the timestamps of a batch have a zone other than UTC; None for UTC, and without a time of day."""
    if values.null_count == len(values):
        return None
    if pa.types.is_timestamp(values.type):
        return values.type.tz is not None if values.type.tz not in _UTC else None
    if pa.types.is_string(values.type) and pc.any(pc.match_substring(values, ":")).as_py():
        if not pc.any(pc.match_substring_regex(values, _ZONE_IN_TEXT)).as_py():
            return False
        return None if pc.all(pc.match_substring_regex(values, _UTC_IN_TEXT)).as_py() else True
    return None
