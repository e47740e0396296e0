"""Containers of a run whose result was published after the attempt that followed them had died.

Their result is found in the cache, so no attempt follows them again: what they printed last is read here, and stored as
the log of a try, before they are removed.

A change here violates the promise of the project when a container is removed that another attempt follows, or before
its log was read, or when a secret of the stage is in what is read.
"""

from collections.abc import Callable

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.labels import Label
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet.runners.following import follow_to_end
from ratchet.runners.log.lines import Line
from ratchet.runners.runner import Runner
from ratchet.runs.built import mark_built
from ratchet.runs.events import Event, parse
from ratchet.runs.jobs import store_label
from ratchet.runs.outcomes import outcomes
from ratchet.runs.requests import compose
from ratchet.runs.try_log import TryLog
from ratchet.runs.work import Work
from ratchet.store.base import Store
from ratchet.store.lease import Hold, Waiter, new_lease

_NOTHING: tuple[tuple[str, ...], None] = ((), None)


def read_leftovers(
    store: Store, plan: RunPlan, outcome: Outcome, runner: Runner, *, name: str, on_event: Callable[[Event], None]
) -> tuple[tuple[str, ...], str | None]:
    """Read the logs of this run's containers of a cached outcome to their end, and remove them.

    Returns their last lines and the key of the last one's log, without secrets; nothing and None if there is none.
    name: of the attempt that reads them. A container whose attempt still lives is left to that one. No error of the
    engine's is raised, since the result is stored: on_event gets a warning.
    """
    if not (runner.durable and outcome.cached and outcome.result is not None):
        return _NOTHING
    try:
        handles = runner.find(_labels(store, plan, outcome.result.fingerprint))
        if not handles:
            return _NOTHING
        work = _work(store, plan, outcome.stage, outcome.result)
        engine = runner.engine.id if runner.engine is not None else None
        lease = new_lease(plan.run_id, name, installation=plan.installation)
        hold = Waiter(store, work.lease, lease, engine=engine).take()
        if hold is None:
            return _NOTHING
        try:
            mark_built(work, outcome.result)
            read = [_read(handle, work, runner, hold, on_event) for handle in handles]
        finally:
            hold.release()
    except RatchetError as error:
        message = f"the log of an earlier attempt was not read: {error.cause}"
        on_event(Event(name="warning", level="warning", message=message))
        return _NOTHING
    return tuple(line for lines, _ in read for line in lines), read[-1][1]


def _labels(store: Store, plan: RunPlan, fingerprint: str) -> dict[str, str]:
    return {
        Label.STORE: store_label(store.uri),
        Label.PIPELINE: plan.spec.name,
        Label.FINGERPRINT: fingerprint,
        Label.RUN: plan.run_id,
    }


def _work(store: Store, plan: RunPlan, stage: Stage, result: StageResult) -> Work:
    """The work that a result is of, as the attempt had it that published it: its job says which secrets it knew."""
    request = compose(store, plan, stage, outcomes(store, plan.spec.name, plan.run_id), result.attempt)
    request = request.model_copy(update={"fingerprint": result.fingerprint})
    return Work(store=store, plan=plan, request=request, because="")


def _read(
    handle: str, work: Work, runner: Runner, hold: Hold, on_event: Callable[[Event], None]
) -> tuple[tuple[str, ...], str | None]:
    """Read the rest of a container's log, and remove it; its last lines, and the key of the log."""
    on_event(Event(name="attempt", level="info", message="the rest of the log of an earlier attempt, which has ended:"))
    with TryLog(work, resumed=True) as log:

        def hear(line: Line) -> None:
            on_event(parse(log.hear(line)))

        ended = follow_to_end(runner, handle, work.job, hear, resume=True, is_ours=hold.is_ours)
        log.end(ended)
    return tuple(parse(log.mask(line)).message for line in ended.tail), log.key
