"""Whether the rows of a day lie in it."""

from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from statistics import median

from ratchet.contracts.checks import Breach
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.quantities import percent
from ratchet.contracts.source import SqlSource
from ratchet.contracts.sql_parameters import BOUNDS, parameters
from ratchet.contracts.summaries import Check
from ratchet.pages.words import count
from tasks.validate.outcome import outcome, usual_most
from tasks.validate.profile import ColumnProfile, Profile

Bounds = tuple[datetime, datetime]
"""The first moment of a day and that of the next one, without a zone, as the snapshot has timestamps."""

_RULE, _KEY = "times", "validate.times"
_FEW, _MANY = 0.01, 0.05
_TIMES = 3
_MOST = 0.5


def bounds(spec: PipelineSpec, day: date, zones: Mapping[str, bool]) -> dict[str, Bounds]:
    """When a day begins and ends, by time column. zones: see SnapshotDay.zones.

    A timestamp that came without a zone has the wall-clock time of the day; one with a zone, or in UTC, is in UTC, and
    so is each one of a query with :start and :end, see SqlSource.query.
    """
    found: dict[str, Bounds] = {}
    for name in spec.with_role("time"):
        first, end = spec.day_bounds(day)
        found[name] = first.replace(tzinfo=None), end.replace(tzinfo=None)
        if not _in_utc(spec, name, zones):
            midnight = datetime.combine(day, time())
            starts = time() if spec.columns[name].type == "date" else time.fromisoformat(spec.source.day_starts)
            found[name] = datetime.combine(midnight, starts), datetime.combine(midnight + timedelta(days=1), starts)
    return found


def _in_utc(spec: PipelineSpec, name: str, zones: Mapping[str, bool]) -> bool:
    """Whether a time column is compared with the day in UTC, so that the source's zone decides."""
    source = spec.source
    by_bounds = isinstance(source, SqlSource) and bool(parameters(source.query) & BOUNDS)
    return spec.columns[name].type == "timestamp" and (by_bounds or zones.get(name) is not False)


def check_times(
    day: date, profiles: Mapping[date, Profile], zones: Mapping[str, bool], spec: PipelineSpec, breach: Breach
) -> Iterator[Check]:
    """Check the share of rows outside of the day, against the other days. zones: see `bounds`.

    Some sources always have late rows, or a time that is not that of the day: only a larger share than theirs fails,
    and where most rows always lie outside there is a warning. So there is where the zone that decides is only that of
    the schedule: the source may have other days.
    """
    zone = spec.schedule.timezone if spec.schedule and not spec.source.timezone else "UTC"
    for name, limit in bounds(spec, day, zones).items():
        found = profiles[day].columns[name]
        shares = [
            share
            for other, one in profiles.items()
            if other != day and name in one.columns and (share := _share(one.columns[name])) is not None
        ]
        share = _share(found)
        allowed = _allowed(limit, spec, name, zones)
        guessed = zone != "UTC" and _in_utc(spec, name, zones)
        if share is None:
            why = "no row has a time" if not found.present else "the profile of the day has no times"
            observed = f"not compared: {why}"
            yield outcome(day, _RULE, name, passed=False, observed=observed, allowed=allowed, key=_KEY, breach="warn")
            continue
        usual = usual_most(shares)
        observed = f"{count(found.outside or 0, 'row')} outside ({percent(share)}), {found.low} to {found.high}"
        if usual > _FEW:
            allowed += f"; up to {percent(usual)} is usual on the other days of the window"
        limit_share = max(_FEW, min(_TIMES * usual, (1 + usual) / 2))
        always = min(share, usual) > _MOST
        yield outcome(
            day,
            _RULE,
            name,
            passed=share <= limit_share and not always,
            observed=observed,
            allowed=allowed + (": see source.timezone and source.day_starts" if always or guessed else ""),
            key=_KEY,
            breach="warn" if guessed or always or share <= _MANY or (not shares and share <= _MOST) else breach,
        )


def check_earlier_times(profiles: Mapping[date, Profile], data_date: date, spec: PipelineSpec) -> Iterator[Check]:
    """A warning for each earlier day with far more rows outside of it than the other days have."""
    for name in spec.with_role("time") if spec.validate_.times else ():
        found = {day: share for day, one in profiles.items() if (share := _share(one.columns[name])) is not None}
        for day, share in found.items():
            usual = median([other for one, other in found.items() if one != day] or [0.0])
            if day != data_date and share > max(_FEW, _TIMES * usual):
                observed = f"{percent(share)} of {count(profiles[day].rows, 'row')} outside of the day"
                allowed = f"about {percent(usual)}, as on other days"
                yield outcome(
                    day, _RULE, name, passed=False, observed=observed, allowed=allowed, key=_KEY, breach="warn"
                )


def _share(found: ColumnProfile) -> float | None:
    return found.outside / found.present if found.outside is not None and found.present else None


def _allowed(limit: Bounds, spec: PipelineSpec, name: str, zones: Mapping[str, bool]) -> str:
    first, end = limit
    if spec.columns[name].type == "date":
        return f"{first.date()}"
    return f"{first} up to {end} ({'UTC' if _in_utc(spec, name, zones) else 'wall-clock time'})"
