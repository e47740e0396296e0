"""Containers of a run whose result was published after the attempt that followed them had died.

Their result is found in the cache, so no attempt follows them again: what they printed last is read here, before they
are removed.

A change here violates the promise of the project when a container is removed that another attempt follows, or before
its log was read.
"""

from collections.abc import Callable

from ratchet.contracts import paths
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.labels import Label
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.stages import Stage
from ratchet.runners.following import follow_to_end
from ratchet.runners.job import Job
from ratchet.runners.log.lines import Line
from ratchet.runners.runner import Runner
from ratchet.runs.events import Event, parse
from ratchet.runs.jobs import store_label
from ratchet.store.base import Store
from ratchet.store.lease import Hold, Waiter, new_lease


def read_leftovers(
    store: Store, plan: RunPlan, outcome: Outcome, runner: Runner, *, name: str, on_event: Callable[[Event], None]
) -> tuple[str, ...]:
    """Read the logs of this run's containers of a cached outcome to their end, and remove them; the last lines.

    name: of the attempt that reads them. A container whose attempt still lives is left to that one. No error of the
    engine's is raised, since the result is stored: on_event gets a warning.
    """
    if not (runner.durable and outcome.cached and outcome.result is not None):
        return ()
    fingerprint = outcome.result.fingerprint
    try:
        handles = runner.find(_labels(store, plan, fingerprint))
        if not handles:
            return ()
        key = paths.lease(plan.spec.name, outcome.stage, fingerprint)
        hold = Waiter(store, key, new_lease(plan.run_id, name)).take()
        if hold is None:
            return ()
        try:
            return tuple(
                line for handle in handles for line in _read(handle, plan, outcome.stage, runner, hold, on_event)
            )
        finally:
            hold.release()
    except RatchetError as error:
        message = f"the log of an earlier attempt was not read: {error.cause}"
        on_event(Event(name="warning", level="warning", message=message))
        return ()


def _labels(store: Store, plan: RunPlan, fingerprint: str) -> dict[str, str]:
    return {
        Label.STORE: store_label(store.uri),
        Label.PIPELINE: plan.spec.name,
        Label.FINGERPRINT: fingerprint,
        Label.RUN: plan.run_id,
    }


def _read(
    handle: str, plan: RunPlan, stage: Stage, runner: Runner, hold: Hold, on_event: Callable[[Event], None]
) -> tuple[str, ...]:
    """Read the rest of a container's log, and remove it; its last lines."""
    settings = plan.spec.stages[stage]
    job = Job(name=f"{plan.spec.name}.{stage}", request=b"", timeout_s=settings.timeout, grace_s=settings.grace)
    on_event(Event(name="attempt", level="info", message="the rest of the log of an earlier attempt, which has ended:"))

    def hear(line: Line) -> None:
        on_event(parse(line))

    ended = follow_to_end(runner, handle, job, hear, resume=True, is_ours=hold.is_ours)
    return tuple(parse(line).message for line in ended.tail)
