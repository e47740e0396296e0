"""A job that its attempt has left running: one process follows many of them, each in a thread.

The follower keeps the lease, passes on lines and new keys, and says when the attempt has to go on. That one finds the
same container, and reads how it ended. A job past its time is stopped here: its attempt may not go on for days, as in a
DAG that is paused.

A change here violates the promise of the project when a follower ends a container that no person has stopped and whose
time is not over, or does not say that one has ended.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event as Signal

from pydantic import ValidationError

from ratchet.contracts.errors import JobGone, RatchetError, Unavailable
from ratchet.contracts.request import RunPlan, StageRequest
from ratchet.runners import following
from ratchet.runners.detached import end_later
from ratchet.runners.following import TAIL_LINES, JobEnd, LeftRunning, retry_unavailable
from ratchet.runners.log.lines import Line
from ratchet.runners.log.position import PositionFile
from ratchet.runners.runner import NOTICE_AGAIN_S, Runner
from ratchet.runs.ends import end_of, has_timed_out
from ratchet.runs.events import parse
from ratchet.runs.live_metrics import end_run, live_metrics
from ratchet.runs.stage_job import StageJob, find_begun
from ratchet.runs.taking import mark_over
from ratchet.runs.try_log import TryLog
from ratchet.runs.work import OnEvent, Work
from ratchet.store.base import Store
from ratchet.store.lease import Hold, Waiter, holder_of, new_lease
from ratchet.store.place import End

LOOK_S = 30.0
"""Seconds without a line after which a follower looks whether it is to go on. It notices an end at once."""
HAND_OVER_S = 300.0
"""Seconds for which the lease beats at most until the attempt goes on."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why an attempt has to go on, in words.

    again: whether it is of use to leave the job to a follower once more. log: where the whole log of the job is.
    """

    text: str
    again: bool
    log: str | None = None


def left_work(store: Store, plan: RunPlan, request: str, because: str, runner: Runner) -> Work | None:
    """What an attempt computes that was left, and has a job or a result.

    None where it has to begin again, for which its plan may have to change, as after an upgrade; and where its request
    is of a release that is not understood here.
    """
    try:
        work = Work(store=store, plan=plan, request=StageRequest.model_validate_json(request), because=because)
    except ValidationError:
        return None
    there = retry_unavailable(lambda: runner.find(work.labels(work.attempt)), following.PATIENCE_S)
    return work if there or work.result() is not None else None


class Follower:
    """Follows the job of a request until its attempt has to go on.

    name: a holder's name that no other one has. over: set when it is to follow no longer; the job goes on then, and
    another follower may have it. positions: where it keeps how far the log of a job was handed on.
    """

    def __init__(
        self,
        store: Store,
        plan: RunPlan,
        request: StageRequest,
        runner: Runner,
        *,
        name: str,
        over: Signal,
        on_event: OnEvent,
        positions: Callable[[str], PositionFile] = PositionFile,
    ) -> None:
        self._work = Work(store=store, plan=plan, request=request, because="")
        self._runner, self._name, self._on_event = runner, name, on_event
        self._over, self._positions = over, positions
        self._ended, self._noticed = False, math.inf
        """Whether the job has ended; the `time.monotonic()` of its first notice to stop."""
        self._end: End | None = None
        """How it has, where it has no result."""

    def follow(self) -> Why:
        """Block until the attempt has to go on, or it is over."""
        work, run = self._work, self._work.plan
        held = retry_unavailable(lambda: holder_of(work.store, work.lease), following.PATIENCE_S)
        if held is None or held.attempt != work.attempt or held.ending:
            return Why("its lease is another attempt's", again=True)
        engine = retry_unavailable(lambda: self._runner.engine, following.PATIENCE_S)
        handle = retry_unavailable(lambda: find_begun(self._runner, work, work.attempt), following.PATIENCE_S)
        if handle is None:
            # Of this engine, it has gone, as after `make down`: the attempt begins another one, which can be left, too.
            ours = held.place is not None and engine is not None and held.place.engine == engine.id
            return Why("its container is gone" if ours else "the triggerer does not see its container", again=ours)
        lease = new_lease(run.run_id, self._name, installation=run.installation)
        waiter = Waiter(work.store, work.lease, lease, engine=engine.id if engine is not None else None)
        hold = retry_unavailable(waiter.take, following.PATIENCE_S)
        if hold is None:
            return Why("another run has taken its lease over", again=True)
        try:
            before = waiter.predecessor or held
            begun, where = before.started, before.place
            hold.point_at(
                before.attempt, begun, place=where, seconds=before.seconds, ending=before.ending, end=before.end
            )
            left_s = work.timeout_s - before.seconds
            return self._to_end(hold, handle, time.monotonic() + left_s)
        finally:
            hold.hand_over(0 if self._over.is_set() else HAND_OVER_S, ended=self._ended, end=self._end)

    def end(self) -> None:
        """Send the job a notice to stop, and return at once, unless another attempt or follower has it by now."""
        work = self._work
        held = holder_of(work.store, work.lease)
        handle = find_begun(self._runner, work, work.attempt)
        if handle is not None and held is not None and held.holder in {self._name, work.attempt}:
            end_later(handle, work.grace_s, store=work.plan.store, lease=work.lease, holder=held.holder)
            end_run(work.plan, work.request.stage, self._on_event)

    def _to_end(self, hold: Hold, handle: str, last: float) -> Why:
        work, why = self._work, Why("it was left", again=True)
        log = TryLog(work)
        job = StageJob(
            work=work, runner=self._runner, hold=hold, handle=handle, found=True, since=time.monotonic(), log=log
        )
        with (
            suppress(LeftRunning),
            live_metrics(work.plan, work.request.stage, self._on_event) as hear,
            job.keys(),
            self._positions(handle) as kept,
        ):
            position, answered = kept.read(), time.monotonic()
            while not self._over.is_set():
                now = time.monotonic()
                look = min(now + LOOK_S, last) if now < last else now + NOTICE_AGAIN_S
                try:
                    for line in self._runner.logs(handle, position, look):
                        hear(parse(log.mask(line)))
                        kept.write(position)
                        if self._over.is_set() or hold.lost.is_set() or time.monotonic() > look:
                            break
                    running = self._runner.status(handle).running
                    if running and time.monotonic() > last and not self._over.is_set() and hold.is_ours():
                        self._stop(handle)
                except JobGone:
                    why = Why("its container is gone", again=True)
                    break
                except Unavailable as error:
                    now = time.monotonic()
                    # Past its time it is to be stopped, though its attempt may not go on for days.
                    if now - answered > following.PATIENCE_S + work.grace_s and now < last:
                        why = Why(error.cause, again=True)
                        break
                    self._over.wait(1)
                    continue
                answered = time.monotonic()
                if not running or hold.lost.is_set():
                    self._ended = not running
                    why = Why("it is lost" if running else "it has ended", again=True)
                    break
            raise LeftRunning
        return replace(why, log=self._read_end(job)) if self._ended else why

    def _stop(self, handle: str) -> None:
        """Send a job past its time a notice to stop, at each look; kill it once its grace is over, too.

        Its grace begins with the first notice that reached it: the engine may have been silent until then.
        """
        with suppress(RatchetError):
            mark_over(self._work, self._work.attempt)
        if time.monotonic() < self._noticed + self._work.grace_s:
            self._runner.notify(handle)
            self._noticed = min(self._noticed, time.monotonic())
        else:
            self._runner.stop(handle, 0)

    def _read_end(self, job: StageJob) -> str | None:
        """Store the whole log of a job that has ended: its attempt may go on where it does not see the job.

        Returns its key; None where the log cannot be read now.
        """
        work, tail = self._work, deque[Line](maxlen=TAIL_LINES)
        try:
            for line in job.runner.logs(job.handle):
                job.log.take(line)
                tail.append(line)
            status, engine, published = job.runner.status(job.handle), job.runner.engine, work.result() is not None
            timed_out = not published and has_timed_out(work, work.attempt, 0, status)
        except RatchetError:
            return None
        with job.log:
            job.log.end(
                JobEnd(
                    exit_code=status.exit_code or 0,
                    out_of_memory=status.out_of_memory,
                    timed_out=timed_out,
                    seconds=0,
                    tail=(),
                    cause=status.cause,
                )
            )
        if not published and engine is not None:
            self._end = end_of(status, map(job.log.mask, tail), host=engine.host, log=job.log.key)
        return job.log.key
