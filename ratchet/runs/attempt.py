"""One attempt at a stage's work: the lease, the container that is started or found again, and its end.

A change here violates the promise of the project when two containers of one fingerprint compute at the same time, or a
container goes on that no attempt and no reaper looks at again.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from ratchet.contracts.errors import JobGone, Preempted, RatchetError, Unavailable
from ratchet.contracts.labels import Label
from ratchet.contracts.request import Outcome
from ratchet.contracts.result import PublishedResult
from ratchet.runners import following
from ratchet.runners.engine import EngineSilent
from ratchet.runners.following import Leave, LeftRunning, retry_unavailable
from ratchet.runners.runner import Runner
from ratchet.runs.built import mark_built
from ratchet.runs.ends import error_of, is_of_run, last_lines, messages
from ratchet.runs.events import Event, parse
from ratchet.runs.failures import failure_of, no_result
from ratchet.runs.live_metrics import live_metrics
from ratchet.runs.outcomes import outcome_of
from ratchet.runs.remedies import with_log, with_remedy
from ratchet.runs.stage_job import StageJob, find_begun, find_running, may_live
from ratchet.runs.taking import followed_s, over_s, place_of, take_lease
from ratchet.runs.try_log import TryLog
from ratchet.runs.work import OnEvent, Work
from ratchet.store.lease import Hold, Lease, Waiter, new_lease

_Answer = TypeVar("_Answer")
_MOST_PREEMPTIONS = 20


class Attempt:
    """One attempt at some work, by `compute`. The work's request names it, and so its container.

    fresh: whether a container of an earlier attempt of its run is ended, not followed. keep: whether the container of a
    stage that failed stays until `clear` is called, so that a retry finds it there. leave: when its container is left
    to a process that follows many. preemptions: how often it was preempted before it was left. log: where its log
    is, if that process has stored it.
    """

    def __init__(
        self,
        work: Work,
        runner: Runner,
        *,
        on_event: OnEvent,
        fresh: bool = False,
        keep: bool = False,
        leave: Leave | None = None,
        preemptions: int = 0,
        log: str | None = None,
    ) -> None:
        self.work = work
        self.preemptions, self.followed = preemptions, work.attempt  # the attempt whose job it is: its own, an earlier
        self.left_s = 0.0
        """Seconds for which the container was followed before this process goes on with what it left."""
        self.lost = False
        """Whether another attempt has taken this over; then that attempt records how the stage ends."""
        self.last_lines: tuple[str, ...] = ()
        """Of the stage's log, once it has ended: the container and its log are gone by then."""
        self.log = log
        """The key of the whole log, once the stage has ended and if it could be stored."""
        self._runner, self._on_event, self._fresh = runner, on_event, fresh
        self._leave = leave or Leave()
        self._stopping = False
        self._job: StageJob | None = None
        self._keep, self._ended = keep, ""
        """The container that has ended and is still there."""

    def compute(self, earlier: str | None = None) -> Outcome:
        """The outcome of the work: computed here, or by another attempt meanwhile.

        earlier: the name of an attempt whose container is followed, if it still exists; its own name where it was left.
        Raises the RatchetError that says why the stage failed, or LeftRunning.
        """
        plan, stage, goes_on = self.work.plan, self.work.request.stage, earlier is not None
        with live_metrics(plan, stage, self._on_event, goes_on=goes_on) as self._on_event:
            return self._compute(earlier)

    def _compute(self, earlier: str | None) -> Outcome:
        while True:
            begun = self._begin(earlier, succeeds=not self.lost)
            if isinstance(begun, PublishedResult):
                if begun.result.attempt == earlier == self.work.attempt:
                    mark_built(self.work, begun.result)
                    return outcome_of(begun, cached=False, because=self.work.because)
                return outcome_of(begun, cached=True, because=f"another run built it (attempt {begun.result.attempt})")
            if (outcome := self._follow(begun)) is not None:
                return outcome
            self._say("another attempt has taken this over")
            earlier = None

    def exists(self, attempt: str) -> bool:
        """Whether an attempt's container for this work exists, running or ended. A silent engine is waited for."""
        return bool(self._patiently(lambda: self._runner.find(self.work.labels(attempt))))

    def clear(self) -> None:
        """Remove the container of a stage that has failed, once it is on record how.

        An engine that stays away keeps the container: the reaper removes it.
        """
        handle, self._ended = self._ended, ""
        if handle:
            try:
                retry_unavailable(lambda: self._runner.remove(handle), following.PATIENCE_S)
            except Unavailable as error:
                self._say(f"its container is left to the reaper: {error.cause}")

    def interrupt(self) -> None:
        """Send the stage a notice to stop, and return at once. It has its whole grace; then it is killed and removed.

        A signal's handler may call this at any time.
        """
        self._stopping = True
        if self._job is not None:
            self._job.interrupt()

    def _begin(self, earlier: str | None, *, succeeds: bool) -> StageJob | PublishedResult:
        """Take the lease, then find or start the container, unless the result is published by then.

        An engine that does not answer is waited for before the lease is taken, so that another host may have it.
        """
        self._patiently(lambda: self._runner.find(self.work.labels(self.work.attempt)))
        engine = self._patiently(lambda: self._runner.engine)
        began = time.monotonic()
        plan = self.work.plan
        lease = new_lease(plan.run_id, self.work.attempt, installation=plan.installation)
        reached = engine.id if engine is not None else None
        waiter = Waiter(self.work.store, self.work.lease, lease, succeeds=succeeds, engine=reached)
        hold = take_lease(self.work, waiter, say=self._say, is_stopping=lambda: self._stopping, until=self._leave.due)
        if isinstance(hold, PublishedResult):
            self.left_s = followed_s(waiter, self.work.attempt)
            return hold
        try:
            found, before = self.work.result(), waiter.predecessor
            if found is None:
                ours = self._patiently(lambda: self._find(hold, before, earlier) or self._start(hold, before, began))
                if ours is not None:
                    return ours
            elif found.result.attempt == earlier == self.work.attempt:  # it was left: its log is to be read
                job = self._patiently(lambda: self._find(hold, before, earlier))
                if job is not None:
                    return job
        except BaseException:
            self._release(hold)
            raise
        self._release(hold)
        return found if found is not None else self._begin(None, succeeds=False)

    def _find(self, hold: Hold, predecessor: Lease | None, earlier: str | None) -> StageJob | None:
        """The container of an earlier attempt, if it is to be followed and has begun."""
        if predecessor is not None and predecessor.ending:
            return None
        if earlier is None and predecessor is not None and not (self._fresh and is_of_run(self.work, predecessor)):
            earlier = predecessor.attempt
        if earlier is None and not self._fresh:  # its follower lost the engine, and gave the lease back
            earlier = find_running(self._runner, self.work)
        handle = find_begun(self._runner, self.work, earlier) if earlier is not None else None
        of_it = predecessor if predecessor is not None and predecessor.attempt == earlier else None
        if earlier is None or handle is None:
            self._take_end(of_it)
            return None
        counted_s = max(over_s(self.work, earlier), of_it.seconds if of_it is not None else 0.0)
        since, again = time.monotonic() - counted_s, earlier == self.work.attempt
        self.followed = earlier
        job = self._own(self._under_way(hold, handle, found=True, since=since, again=again))
        begun = of_it.started if of_it is not None else datetime.now(UTC)
        where = place_of(self.work, self._runner.engine, self._runner.labels(handle)[Label.RUN])
        hold.point_at(earlier, begun, place=where, seconds=counted_s)
        if again:
            self.left_s = counted_s
        else:
            self._say(f"the container of attempt {earlier} is still there; going on with it")
        return job

    def _take_end(self, lease: Lease | None) -> None:
        """Raise the error of this run's job that ended on another host, unless it has saved its work: it goes on."""
        if lease is None or (end := lease.end) is None or not is_of_run(self.work, lease):
            return
        error, self.preemptions = error_of(self.work, lease, end), self.preemptions + 1
        if not isinstance(error, Preempted) or self.preemptions >= _MOST_PREEMPTIONS:
            self.last_lines, self.log, self.left_s = messages(last_lines(end)), end.log, lease.seconds
            raise error
        self._say(f"{error.cause}; it goes on here")

    def _start(self, hold: Hold, predecessor: Lease | None, began: float) -> StageJob | None:
        """Start a container, after the end of every other one for this work. None if the lease is lost by then."""
        for leftover in self._runner.find(self.work.labels()):
            self._say("the container of an earlier attempt is ended first")
            if predecessor is not None:  # what it saves at its end counts: until then the job is still its own
                seconds, where = predecessor.seconds, predecessor.place
                hold.point_at(predecessor.attempt, predecessor.started, place=where, seconds=seconds, ending=True)
            with suppress(JobGone):
                if self._runner.status(leftover).begun:  # one that was only created hears no notice
                    self._runner.stop(leftover, self.work.grace_s)
            self._runner.remove(leftover)
        hold.point_at(self.work.attempt, datetime.now(UTC), place=place_of(self.work, self._runner.engine))
        if hold.lost.is_set():
            return None
        self.followed = self.work.attempt
        handle = self._runner.submit(self.work.job)
        return self._own(self._under_way(hold, handle, found=False, since=began))

    def _own(self, job: StageJob) -> StageJob:
        """Send notices to stop to this job from now on, and the one that arrived while it started."""
        self._job = job
        if self._stopping:
            job.interrupt()
        return job

    def _under_way(self, hold: Hold, handle: str, *, found: bool, since: float, again: bool = False) -> StageJob:
        log = TryLog(self.work, resumed=found and not again, stored=self.log if again else None)
        return StageJob(
            work=self.work, runner=self._runner, hold=hold, handle=handle, found=found, since=since, log=log,
            leave=self._leave, again=again,
        )  # fmt: skip

    def _patiently(self, ask: Callable[[], _Answer]) -> _Answer:
        """What `ask` returns, asked again for PATIENCE_S seconds while the engine is silent, until a notice to stop."""

        def once() -> _Answer:
            try:
                return ask()
            except EngineSilent:
                if not self._stopping:
                    raise
                said = f"{self.work.request.stage} received a notice to stop while it waited for the Docker engine"
                raise Preempted(said) from None

        return retry_unavailable(once, following.PATIENCE_S, of=EngineSilent)

    def _follow(self, job: StageJob) -> Outcome | None:
        """The outcome of a job, or None if another attempt has taken it over and has no result yet."""
        work, error = self.work, None
        try:
            error = self._to_end(job)
        except LeftRunning:
            if job.hold.hand_over():
                raise
        except RatchetError as raised:  # also JobGone, if another process has removed it
            error = Preempted(f"{work.request.stage} received a notice to stop") if self._stopping else raised
        finally:
            ended, self._ended = self._ended, ""  # it stays where the store does not take now how it ended
            self._release(job.hold)
        found = work.result()
        if found is None and self.lost and not self._stopping:
            return None
        # To publish is a stage's last step: what ended its container after that, as a kill, took nothing away.
        is_over = bool(ended or isinstance(error, JobGone)) and not self._stopping
        was_done = is_over and found is not None and found.result.attempt == self.followed
        if found is None or (error is not None and not (self.lost or was_done)):
            failure = with_log(work, with_remedy(work, error or no_result(work.request)), self.log)
            self._ended = "" if self.lost else ended
            if found is None and not self._keep:
                self.clear()
            raise failure
        self._ended = "" if self.lost else ended
        mark_built(work, found.result)
        self.clear()  # only now: a retry after a kill before this line finds the container, and marks the result
        return outcome_of(found, cached=False, because=work.because)

    def _to_end(self, job: StageJob) -> RatchetError | None:
        """Follow a job, and start it again whenever it was preempted and saved its work."""
        while True:
            try:
                ended = job.follow(lambda line: self._on_event(parse(line)))
            finally:
                self.log = job.log.key
            self._ended = job.handle
            self.last_lines = messages(ended.tail)
            error = failure_of(self.work.request, ended)
            self.preemptions += 1
            if not isinstance(error, Preempted) or self._stopping or self.preemptions >= _MOST_PREEMPTIONS:
                break
            if not job.hold.is_ours():  # its successor has stopped it, and starts the next one
                break
            times = f"{self.preemptions} of at most {_MOST_PREEMPTIONS - 1} times"
            self._say(f"{error.cause}; it goes on at once ({times})")
            self.clear()
            seconds, where = time.monotonic() - job.since, place_of(self.work, self._runner.engine)
            job.hold.point_at(self.work.attempt, datetime.now(UTC), place=where, seconds=seconds)
            handle, self.followed = self._runner.submit(self.work.job), self.work.attempt
            job = self._own(replace(job, handle=handle, found=False, again=False, log=TryLog(self.work)))
        return error

    def _release(self, hold: Hold) -> None:
        """Give the lease back. It stays, without a holder, where the job may go on: another host must not begin one."""
        if not hold.handed:
            self._job = None
        self.lost = not hold.release(lives=may_live(self._runner, self.work) and self.work.result() is None)

    def _say(self, message: str) -> None:
        self._on_event(Event(name="attempt", level="info", message=message))
