"""One stage, in its container: its request taken in, its code run, what it made published.

A change here violates the promise of the project when a stage publishes under a fingerprint that speaks of other code,
or a stage that failed leaves a part of its outputs behind.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Event
from typing import Protocol, cast

from ratchet.contracts.errors import ConfigurationError, OtherCode, Preempted, StopNotice
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.request import StageRequest
from ratchet.contracts.stages import TRAININGS, Stage, stage_module
from ratchet.runtime.code import code_parts
from ratchet.runtime.context import Finished, StageContext
from ratchet.runtime.fence import fenced
from ratchet.runtime.logs import StageLog
from ratchet.runtime.user_code import raised_by
from ratchet.store.opening import open_store


class StageModule(Protocol):
    """What `tasks.<stage>.stage` offers."""

    def run(self, ctx: StageContext) -> Finished:
        """Do the stage's work, and leave its outputs in the context's transaction."""
        ...


def run_stage(request: StageRequest, log: StageLog) -> int:
    """Run a stage's code on a request and publish what it made; its exit code. Raises what the stage raises."""
    _refuse_other_code(request)
    store = open_store(request.store)
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _stop(request.stage, stopping))
    opened = StageContext.open(request, store=store, log=log, stopping=stopping)
    with _ending(request.stage), fenced(store, request, log), opened as context:
        stage = cast("StageModule", import_module(stage_module(request.stage)))
        finished = stage.run(context)
        if stopping.is_set() and request.stage not in TRAININGS:
            raise StopNotice  # code that catches everything has caught it, and what it returned then is no result
        published = context.commit(finished)
    log.event("published", f"published {published.key}", key=published.key, reused=published.reused)
    return int(ExitCode.DONE)


def _stop(stage: Stage, stopping: Event) -> None:
    """A notice to stop: training looks at the event and saves its work; the others have nothing to save.

    One notice may arrive several times. The later ones must not interrupt the clean-up after the first.
    """
    if not stopping.is_set():
        stopping.set()
        if stage not in TRAININGS:
            raise StopNotice


@contextmanager
def _ending(stage: Stage) -> Iterator[None]:
    """Raise a notice as Preempted, and an exit that the pipeline's code asked for as an error of its line."""
    try:
        yield
    except StopNotice:
        raise Preempted(f"{stage} received a notice to stop") from None
    except (SystemExit, KeyboardInterrupt) as error:
        if (place := raised_by(error)) is None:
            raise
        raise ConfigurationError(
            f"{place}: {type(error).__name__}: {error}", remedy="raise an Exception that says what is wrong"
        ) from error


def _refuse_other_code(request: StageRequest) -> None:
    """A fingerprint speaks of the code that it was computed from; other code must not publish under it."""
    ours = code_parts(stage_module(request.stage))
    if not ours:
        raise ConfigurationError(
            f"the code of the stage {request.stage} is not installed here",
            remedy="install the wheel ratchet-stages (make wheels), or run the stages in containers: --runner docker",
        )
    theirs = {name: value for name, value in request.parts.items() if name.startswith("code.")}
    if ours != theirs:
        differ = sorted(name.removeprefix("code.") for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
        raise OtherCode(
            f"the code of this image is not that of the run; they differ in {', '.join(differ[:3])}",
            remedy="build the images again: scripts/images.sh",
        )
