"""The source of a run until ingest has read it: what is late is waited for, and what has changed is planned again.

Both change the plan in the store, with a record, and so the request and the fingerprint of ingest. A change here
violates the promise of the project when a run reads other files than its plan names, or a run that takes the source as
it was `then` reads it as it is now.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from ratchet.contracts import paths
from ratchet.contracts.plan_changes import SourceChange
from ratchet.contracts.quantities import show_duration
from ratchet.contracts.request import FurtherDays, RunPlan, SourceDay
from ratchet.contracts.source import FilesSource, wait_limit
from ratchet.runs.events import Event
from ratchet.runs.history import plan_of
from ratchet.runtime.further_days import days_to_join, further_days
from ratchet.runtime.held_days import source_days
from ratchet.runtime.sources import listed
from ratchet.store.base import Store
from ratchet.store.documents import replace_document
from ratchet.store.opening import open_store

_POLL_S = 5.0
"""Seconds between two looks at a source whose data date has no files."""
_QUIET_S = 2.0
"""Seconds for which a source that has changed has to stay the same before it is planned again."""
_MOST_LOOKS = 30


def current_plan(
    store: Store,
    plan: RunPlan,
    *,
    failed: bool,
    on_event: Callable[[Event], None],
    pause: Callable[[float], None] = time.sleep,
    waited: Callable[[], float] = lambda: 0.0,
) -> RunPlan:
    """The plan with which ingest starts. Waits for the data date; after a failed try, plans a changed source again.

    failed: whether an earlier try of ingest in this run has failed. pause: waits so many seconds before the source is
    looked at again, or raises what makes the caller call this again later. waited: for how many seconds earlier calls
    have waited. Raises what listing the source raises.
    """
    plan = plan_of(store, plan.spec.name, plan.run_id) or plan
    if plan.as_of == "then":
        return plan
    if failed:
        plan = _record(store, plan, _quiet_source(store, plan), on_event)
    return _await_data_date(store, plan, on_event, pause, waited)


def source_changed(plan: RunPlan) -> bool:
    """Whether the source is no longer as the plan says, so that another try of ingest in this run can succeed."""
    return plan.as_of == "now" and _list(open_store(plan.store), plan) != _planned(plan)


class _Listed(NamedTuple):
    """The days of the main source, and those of each further one."""

    source: tuple[SourceDay, ...]
    joins: dict[str, FurtherDays]


def _planned(plan: RunPlan) -> _Listed:
    return _Listed(plan.source, plan.joins)


def _list(store: Store, plan: RunPlan) -> _Listed:
    days, own = [each.day for each in plan.source], not plan.reads_another_source
    source = source_days(store, plan.spec, days, own=own, rebuild=plan.rebuild)[1]
    to_join = days_to_join(source, then=False) if plan.spec.joins else []
    return _Listed(source, further_days(store, plan.spec, to_join, own=own, rebuild=plan.rebuild))


def _quiet_source(store: Store, plan: RunPlan) -> _Listed:
    """The source after it has stayed the same for a moment, if it differs from the plan; bounded."""
    found = _list(store, plan)
    for _ in range(_MOST_LOOKS):
        if found == _planned(plan):
            break
        time.sleep(_QUIET_S)
        before, found = found, _list(store, plan)
        if before == found:
            break
    return found


def _await_data_date(
    store: Store,
    plan: RunPlan,
    on_event: Callable[[Event], None],
    pause: Callable[[float], None],
    waited: Callable[[], float],
) -> RunPlan:
    """Wait until the data date has rows, until the limit, which counts from the first look on. Looks once in any case.

    By no clock on the wall: one that is set would end the wait too early.
    """
    limit_s = wait_limit(plan.spec.source, scheduled=plan.kind == "scheduled")
    began, before, reported = time.monotonic(), 0.0, False
    while not _has_data_date(_planned(plan), plan):
        if _has_data_date(found := _list(store, plan), plan):
            plan = _record(store, plan, found, on_event)
            break
        if limit_s > 0 and not reported:
            before = waited()
        left_s = limit_s - before - (time.monotonic() - began)
        if left_s <= 0:
            break
        if not reported:
            lack = _lack(plan)
            message = f"{lack}; waiting at most {show_duration(round(left_s))}"
            on_event(Event(name="waiting", level="warning", message=message))
            reported = True
        pause(min(_POLL_S, left_s))
    _warn_of_age(plan, on_event)
    return plan


def _lack(plan: RunPlan) -> str:
    """Why the data date is not ready."""
    source = plan.spec.source
    if any(each.day == plan.data_date and each.missing for each in plan.source):
        lack = listed(source, plan.source_root, plan.data_date).lack if isinstance(source, FilesSource) else ""
        what = f"are not complete: {lack}" if lack else ""
        return f"the files for {plan.data_date} {what}" if lack else f"the source has no files for {plan.data_date} yet"
    return f"joins.{next(_unready(_planned(plan), plan))}: the source has no files for {plan.data_date} yet"


def _warn_of_age(plan: RunPlan, on_event: Callable[[Event], None]) -> None:
    """Warn if the data date of a scheduled run is older than source.ready.fresh."""
    source = plan.spec.source
    if plan.kind != "scheduled" or not isinstance(source, FilesSource) or source.ready.fresh is None:
        return
    age_s = listed(source, plan.source_root, plan.data_date).age_s
    if age_s is not None and age_s > source.ready.fresh:
        message = f"the newest file for {plan.data_date} was written {show_duration(round(age_s))} ago"
        limit = f"source.ready.fresh is {show_duration(source.ready.fresh)}"
        on_event(Event(name="stale", level="warning", message=f"{message}; {limit}"))


def _has_data_date(found: _Listed, plan: RunPlan) -> bool:
    there = any(each.day == plan.data_date and not each.missing for each in found.source)
    return there and next(_unready(found, plan), None) is None


def _unready(found: _Listed, plan: RunPlan) -> Iterator[str]:
    """The joins whose source lacks the data date, and may not."""
    for name, further in found.joins.items():
        required = plan.spec.joins[name].source.missing_days == "fail"
        if required and any(each.day == plan.data_date and each.missing for each in further.days):
            yield name


def _record(store: Store, plan: RunPlan, found: _Listed, on_event: Callable[[Event], None]) -> RunPlan:
    """Replace the plan in the store by one with this source, if it differs, unless another try has planned since."""
    pairs = [(_planned(plan).source, found.source)]
    pairs += [(plan.joins[name].days if name in plan.joins else (), one.days) for name, one in found.joins.items()]
    days = tuple(sorted({one.day for old, new in pairs for one in new if one not in old}))
    if not days:
        return plan
    change = SourceChange(at=datetime.now(UTC), days=days)
    changes = {**found._asdict(), "source_changes": (*plan.source_changes, change)}
    planned = plan.model_copy(update=changes)
    key = paths.plan(plan.spec.name, plan.run_id)
    entry = store.head(key)
    stored = plan_of(store, plan.spec.name, plan.run_id)
    if stored is not None and stored != plan:
        return stored
    if entry is not None and not replace_document(store, key, planned, expected=entry.etag):
        return plan_of(store, plan.spec.name, plan.run_id) or planned
    message = f"the source has changed; planned again: {', '.join(map(paths.day, days))}"
    on_event(Event(name="replanned", level="warning", message=message))
    return planned
