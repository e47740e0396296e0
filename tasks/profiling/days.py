"""The profiles that nights have measured, out of the store, and the difference of two of them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from ratchet.contracts import paths
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent
from ratchet.contracts.result import PublishedResult
from ratchet.runtime.held_days import read_index
from ratchet.runtime.parts_index import indexed_parts
from ratchet.store.artifacts import read_json
from ratchet.store.base import Store
from ratchet.store.publishing import find_result
from tasks.validate.profile import ColumnProfile, Profile
from tasks.validate.rules import show
from tasks.validate.stability import difference, is_comparable

_LIMIT = 0.2
"""Of a PSI; it decides how many bins there are."""
_LISTED = 3
_FILE, _PROFILE = "input.file", "profile"


def stored_profiles(store: Store, spec: PipelineSpec, days: set[date]) -> dict[date, Profile]:
    """The profiles of days of the snapshot, oldest first; without those that no validate has measured."""
    rows: dict[str, list[date]] = {}
    for day, held in read_index(store, spec).days.items():
        if day in days:
            rows.setdefault(held.day.file.sha256, []).append(day)
    found: dict[date, PublishedResult] = {}

    def take(parts: Iterable[PublishedResult | None]) -> None:
        for one in filter(None, parts):
            for day in rows.get(one.result.parts.get(_FILE, ""), ()):
                if day not in found or found[day].result.finished < one.result.finished:
                    found[day] = one

    kind = paths.day_part("validate")
    take(indexed_parts(store, paths.parts_index(spec.name, kind)))
    if any(day not in found for of_rows in rows.values() for day in of_rows):  # nights of before, not the last ones
        place = paths.published(spec.name, kind)
        names = sorted({entry.key.removeprefix(f"{place}/").partition("/")[0] for entry in store.list(place)})
        take(find_result(store, f"{place}/{name}") for name in names)
    return {day: read_json(store, one.result.outputs[_PROFILE], Profile) for day, one in sorted(found.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLine:
    """A column in a table. change: to the other profile, in words; empty without one."""

    name: str
    kind: str
    missing: str
    distinct: str
    range: str
    frequent: str
    change: str


def lines(profile: Profile, against: Profile | None) -> Iterator[ColumnLine]:
    """A line for each column."""
    for name, column in profile.columns.items():
        other = against.columns.get(name) if against is not None else None
        yield ColumnLine(
            name=name,
            kind=column.type,
            missing=percent(column.missing_share),
            distinct=f"{column.distinct:,}" if column.values else "",
            range=f"{show(column.low)} to {show(column.high)}" if column.low is not None else "",
            frequent=", ".join(_shares(column)),
            change="" if against is None else change(column, other),
        )
    for name in [] if against is None else [name for name in against.columns if name not in profile.columns]:
        yield ColumnLine(name=name, kind="", missing="", distinct="", range="", frequent="", change="is gone")


def _shares(column: ColumnProfile) -> Iterator[str]:
    for value, rows in list(column.values.items())[:_LISTED]:
        yield f"{value[:24]!r} {percent(rows / max(column.rows, 1))}"


def change(ours: ColumnProfile, theirs: ColumnProfile | None) -> str:
    """How a column differs from what it was, in words."""
    if theirs is None:
        return "is new"
    if reason := is_comparable(ours, theirs):
        return f"not compared: {reason}"
    parts = []
    if ours.histogram or ours.values or ours.others:
        found = difference(ours, theirs, _LIMIT)
        parts.append(f"PSI {found.psi:.3f}, JS {found.js:.3f}")
    if round(ours.missing_share, 4) != round(theirs.missing_share, 4):
        parts.append(f"missing {percent(theirs.missing_share)} before")
    for words, more, fewer in (("new", ours, theirs), ("gone", theirs, ours)):
        if not fewer.others and (values := [value for value in more.values if value not in fewer.values]):
            some = ", ".join(f"{value[:24]!r}" for value in values[:_LISTED])
            parts.append(f"{words}: {some}" + (f" and {len(values) - _LISTED} more" if len(values) > _LISTED else ""))
    return "; ".join(parts)


def as_json(days: Mapping[date, Profile]) -> dict[str, object]:
    """The profiles as they are stored, by day."""
    return {day.isoformat(): profile.model_dump(mode="json", by_alias=True) for day, profile in days.items()}
