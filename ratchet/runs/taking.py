"""Waiting for the lease of some work: until it is ours, its holder has published the result, or the job is away."""

import math
import time
from collections.abc import Callable

from ratchet.contracts import paths
from ratchet.contracts.errors import Preempted, Unavailable
from ratchet.contracts.outages import OnAnotherHost
from ratchet.contracts.quantities import show_duration
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import section
from ratchet.runners.runner import Engine
from ratchet.runs.work import Work
from ratchet.store import lease
from ratchet.store.lease import Hold, Waiter
from ratchet.store.place import Place

_POLL_S, _LATER_S = 0.3, 3.0
"""Seconds between two looks at the lease of another run, each of three requests: at first, and after _SOON_S."""
_SOON_S = 60.0
_LONGEST = 4
"""For how many times STALE_S a silent holder is looked at, at most: it takes longer where the store answers slowly."""
_SIGN = "alive"


class Elsewhere(OnAnotherHost):
    """The job may live in an engine that this host does not reach. A later try may be on its host, or find a result."""


class OtherRun(Unavailable):
    """Another run still computes the same. A later look may find its result."""


def place_of(work: Work, engine: Engine | None, run_id: str | None = None) -> Place | None:
    """Where a job of some work lives. run_id: of the run that started it, if it is another one."""
    if engine is None:
        return None
    name = f"{_SIGN}-{paths.short(work.request.fingerprint)}"  # a run that is planned again may compute another one
    sign = paths.kept(work.plan.spec.name, run_id or work.plan.run_id, work.request.work_name, name)
    return Place(engine=engine.id, host=engine.host, sign=sign)


def mark_over(work: Work, attempt: str) -> None:
    """Note that the time of the job of an attempt is over, before it is stopped: its lease may be gone at its end."""
    work.store.create(_over(work, attempt), b"")


def over_s(work: Work, attempt: str) -> float:
    """The time that a stage may take, if that of the job of an attempt was noted to be over; else 0."""
    return work.timeout_s if work.store.head(_over(work, attempt)) is not None else 0.0


def _over(work: Work, attempt: str) -> str:
    return paths.kept(work.plan.spec.name, work.plan.run_id, work.request.work_name, f"over-{attempt}")


def take_lease(
    work: Work,
    waiter: Waiter,
    *,
    say: Callable[[str], None],
    is_stopping: Callable[[], bool],
    until: float = math.inf,
) -> Hold | PublishedResult:
    """The lease, or the result that its holder has published.

    until: the `time.monotonic()` of the end of the wait for another run, whose holder lives, if that is long enough.
    Raises OtherRun then, Elsewhere, and Preempted after a notice to stop; Unavailable, as `waited_enough`.
    """
    stage, reported, began, first = work.request.stage, False, time.monotonic(), None
    while (hold := waiter.take()) is None:
        if waiter.elsewhere is not None and waiter.holder is not None:
            if (found := work.result()) is not None:
                return found
            place = waiter.elsewhere
            raise Elsewhere(
                f"{stage}: the container of attempt {waiter.holder.attempt} may still run on {place.host}, whose "
                "engine this host does not reach",
                remedy=f"wait for its result, or for a try on {place.host}; if that host is gone for good: "
                f"`ratchet host-gone {place.host} --because WHY`",
            )
        if not reported and (holder := waiter.holder) is not None:
            reported = True
            say(f"run {holder.run_id} computes the same since {holder.started:%H:%M:%S}; waiting for it")
        time.sleep(_POLL_S if time.monotonic() - began < _SOON_S else _LATER_S)
        if is_stopping():
            raise Preempted(f"{stage} received a notice to stop while it waited for another run")
        waited_enough(work, time.monotonic() - began)
        if (found := work.result()) is not None:
            return found
        if (holder := waiter.holder) is None:
            continue
        first = first or holder
        lives = (holder.holder, holder.beat) != (first.holder, first.beat)
        least_s = lease.STALE_S * (1 if lives else _LONGEST) + _LATER_S
        if time.monotonic() >= max(until, began + least_s):
            raise OtherRun(f"run {holder.run_id} computes {stage} with the same inputs")
    return hold


def followed_s(waiter: Waiter, attempt: str) -> float:
    """How long the job of an attempt was followed, if its lease is the one that a waiter did not get; else 0."""
    held = waiter.holder
    return held.seconds if held is not None and held.attempt == attempt else 0.0


def waited_enough(work: Work, waited_s: float) -> None:
    """Raises Unavailable once the wait for another run has taken the time that the stage may take."""
    if waited_s > work.timeout_s:
        raise Unavailable(
            f"{work.request.stage} waited {show_duration(work.timeout_s)} for another run that computes the same",
            remedy=f"check what holds that run up, or raise stages.{section(work.request.stage)}.timeout",
        )
