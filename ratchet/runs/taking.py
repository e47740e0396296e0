"""Waiting for the lease of some work: until it is ours, its holder has published the result, or the job is away."""

import time
from collections.abc import Callable

from ratchet.contracts import paths
from ratchet.contracts.errors import Preempted, Unavailable
from ratchet.contracts.quantities import show_duration
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import section
from ratchet.runners.runner import Engine
from ratchet.runs.work import Work
from ratchet.store.lease import Hold, Waiter
from ratchet.store.place import Place

_POLL_S, _LATER_S = 0.3, 3.0
"""Seconds between two looks at the lease of another run, each of three requests: at first, and after _SOON_S."""
_SOON_S = 60.0
_SIGN = "alive"


class Elsewhere(Unavailable):
    """The job may live in an engine that this host does not reach. A later try may be on its host, or find a result."""


def place_of(work: Work, engine: Engine | None, run_id: str | None = None) -> Place | None:
    """Where a job of some work lives. run_id: of the run that started it, if it is another one."""
    if engine is None:
        return None
    name = f"{_SIGN}-{paths.short(work.request.fingerprint)}"  # a run that is planned again may compute another one
    sign = paths.kept(work.plan.spec.name, run_id or work.plan.run_id, work.request.work_name, name)
    return Place(engine=engine.id, host=engine.host, sign=sign)


def take_lease(
    work: Work, waiter: Waiter, *, say: Callable[[str], None], is_stopping: Callable[[], bool]
) -> Hold | PublishedResult:
    """The lease, or the result that its holder has published.

    Raises Elsewhere, Unavailable after the time that the stage may take, and Preempted after a notice to stop.
    """
    stage, limit_s, reported, began = work.request.stage, work.timeout_s, False, time.monotonic()
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
        if time.monotonic() - began > limit_s:
            raise Unavailable(
                f"{stage} waited {show_duration(limit_s)} for another run that computes the same",
                remedy=f"check what holds that run up, or raise stages.{section(stage)}.timeout",
            )
        if (found := work.result()) is not None:
            return found
    return hold
