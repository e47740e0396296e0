"""The days of further sources that a window's joins look at: as a run plans them, and which of its days they change."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.further_source import days_looked_at, further, join_identity
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.request import FurtherDays, SourceDay
from ratchet.runtime.held_days import read_index, source_days
from ratchet.store.base import Store


def further_days(
    store: Store, spec: PipelineSpec, days: Iterable[date], *, own: bool = True, rebuild: bool = False
) -> dict[str, FurtherDays]:
    """The days of each further source that the joins of these days look at, as `source_days` lists a source.

    The newest of them may come from the snapshot too: only of the main source the data date has to come. Raises what
    listing raises, with the name of the join.
    """
    wanted, found = list(days), {}
    for name in spec.joins:
        looked_at = sorted({one for day in wanted for one in days_looked_at(spec, name, day)})
        if looked_at:
            with of_join(name):
                beyond = [*looked_at, looked_at[-1] + timedelta(days=1)]
                root, listed = source_days(store, further(spec, name), beyond, own=own, rebuild=rebuild)
            found[name] = FurtherDays(root=root, days=listed[:-1])
    return found


def days_to_join(source: Iterable[SourceDay], *, then: bool) -> list[date]:
    """The days of a window whose joins matter; then: of a run that takes what it holds as it was."""
    return [day.day for day in source if not day.missing and not (then and day.held is not None)]


def planned_joins(
    store: Store, spec: PipelineSpec, days: Iterable[date], joins: Mapping[str, FurtherDays]
) -> dict[date, dict[str, str] | None]:
    """What the joined columns of days would be made from, as far as the snapshot says so without the source.

    None for a day of which a join looks at days that have to be read first.
    """
    found: dict[date, dict[str, str] | None] = {day: {} for day in days}
    for name, planned in joins.items():
        index = read_index(store, further(spec, name))
        held = {one.day: one.held or index.unchanged(one) for one in planned.days if not one.missing}
        rows = {day: one.file.sha256 for day, one in held.items() if one is not None and one.file.rows}
        unread = {day for day, one in held.items() if one is None}
        if spec.joins[name].source.kind == "sql":  # a day without rows is not held, and asked for each night
            unread = {day for day in unread if day > max(index.days, default=date.min)}
        for day, known in found.items():
            if known is None or unread & {*days_looked_at(spec, name, day)}:
                found[day] = None
            else:
                known[name] = join_identity(spec, name, rows, day)
    return found


@contextmanager
def of_join(name: str) -> Iterator[None]:
    """Say in an error of a further source which one it is."""
    try:
        yield
    except RatchetError as error:
        path = f"joins.{name}"
        error.cause = f"{path}.{error.cause}" if error.cause.startswith("source.") else f"{path}: {error.cause}"
        error.remedy = error.remedy.replace("source.", f"{path}.source.")
        error.args = (error.cause,)
        raise
