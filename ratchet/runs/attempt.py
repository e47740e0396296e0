"""One attempt at a stage's work: the lease, the container that is started or found again, and its end.

A change here violates the promise of the project when two containers of one fingerprint compute at the same time, or a
container goes on that no attempt and no reaper looks at again.
"""

import time
from dataclasses import replace
from datetime import UTC, datetime

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import OutOfMemory, Preempted, RatchetError, Unavailable
from ratchet.contracts.quantities import show_duration
from ratchet.contracts.request import Outcome
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import TRAININGS, section
from ratchet.runners.log.lines import Line
from ratchet.runners.runner import Runner
from ratchet.runs.accumulation import remember_chosen, remember_out_of_memory
from ratchet.runs.events import Event, parse
from ratchet.runs.failures import failure_of
from ratchet.runs.live_metrics import live_metrics
from ratchet.runs.outcomes import outcome_of
from ratchet.runs.stage_job import StageJob, find_begun
from ratchet.runs.try_log import TryLog
from ratchet.runs.work import OnEvent, Work
from ratchet.store.address import address
from ratchet.store.lease import Hold, Lease, Waiter, new_lease

_POLL_S = 0.3
_MOST_PREEMPTIONS = 20
_THE_LOG = "the log"
"""The end of a remedy that sends a person to the log of the stage."""
_LONGEST = 1000
"""Characters of a line that is kept with the outcome."""


class Attempt:
    """One attempt at some work, by `compute`. The work's request names it, and so its container.

    fresh: whether a container of an earlier attempt is ended rather than followed.
    """

    def __init__(self, work: Work, runner: Runner, *, on_event: OnEvent, fresh: bool = False) -> None:
        self.work = work
        self.lost = False
        """Whether another attempt has taken this over; then that attempt records how the stage ends."""
        self.last_lines: tuple[str, ...] = ()
        """Of the stage's log, once it has ended: the container and its log are gone by then."""
        self.log: str | None = None
        """The key of the whole log, once the stage has ended and if it could be stored."""
        self._runner, self._on_event, self._fresh = runner, on_event, fresh
        self._stopping = False
        self._job: StageJob | None = None

    def compute(self, earlier: str | None = None) -> Outcome:
        """The outcome of the work: computed here, or by another attempt meanwhile.

        earlier: the name of an attempt whose container is followed, if it still exists. Raises the RatchetError that
        says why the stage failed.
        """
        with live_metrics(self.work.plan, self.work.request.stage, self._on_event) as self._on_event:
            return self._compute(earlier)

    def _compute(self, earlier: str | None) -> Outcome:
        while True:
            begun = self._begin(earlier, succeeds=not self.lost)
            if isinstance(begun, PublishedResult):
                return outcome_of(begun, cached=True, because=f"another run built it (attempt {begun.result.attempt})")
            outcome = self._follow(begun)
            if outcome is not None:
                return outcome
            self._say("another attempt has taken this over")
            earlier = None

    def exists(self, attempt: str) -> bool:
        """Whether an attempt's container for this work exists, running or ended."""
        return bool(self._runner.find(self.work.labels(attempt)))

    def interrupt(self) -> None:
        """Send the stage a notice to stop, and return at once. It has its whole grace; then it is killed and removed.

        A signal's handler may call this at any time.
        """
        self._stopping = True
        if self._job is not None:
            self._job.interrupt()

    def _begin(self, earlier: str | None, *, succeeds: bool) -> StageJob | PublishedResult:
        """Take the lease, then find or start the container, unless the result is published by then."""
        began = datetime.now(UTC)
        plan = self.work.plan
        lease = new_lease(plan.run_id, self.work.attempt, installation=plan.installation)
        waiter = Waiter(self.work.store, self.work.lease, lease, succeeds=succeeds)
        hold = self._wait(waiter, began)
        if isinstance(hold, PublishedResult):
            return hold
        try:
            found = self.work.result()
            if found is None:
                return self._find(hold, waiter.predecessor, earlier, began) or self._start(
                    hold, waiter.predecessor, began
                )
        except BaseException:
            self._release(hold)
            raise
        self._release(hold)
        return found

    def _wait(self, waiter: Waiter, began: datetime) -> Hold | PublishedResult:
        """The lease, or the result that its holder has published."""
        stage, limit_s, reported = self.work.request.stage, self.work.timeout_s, False
        while (hold := waiter.take()) is None:
            if not reported and (holder := waiter.holder) is not None:
                reported = True
                self._say(f"run {holder.run_id} computes the same since {holder.started:%H:%M:%S}; waiting for it")
            time.sleep(_POLL_S)
            if self._stopping:
                raise Preempted(f"{stage} received a notice to stop while it waited for another run")
            if (datetime.now(UTC) - began).total_seconds() > limit_s:
                raise Unavailable(
                    f"{stage} waited {show_duration(limit_s)} for another run that computes the same",
                    remedy=f"check what holds that run up, or raise stages.{section(stage)}.timeout",
                )
            if (found := self.work.result()) is not None:
                return found
        return hold

    def _find(self, hold: Hold, predecessor: Lease | None, earlier: str | None, began: datetime) -> StageJob | None:
        """The container of an earlier attempt, if it is to be followed and has begun."""
        if predecessor is not None and predecessor.ending:
            return None
        if earlier is None and predecessor is not None and not self._fresh:
            earlier = predecessor.attempt
        handle = find_begun(self._runner, self.work, earlier) if earlier is not None else None
        if earlier is None or handle is None:
            return None
        since = began if predecessor is None else predecessor.started
        job = self._own(self._under_way(hold, handle, found=True, since=since))
        hold.point_at(earlier, since)
        self._say(f"the container of attempt {earlier} is still there; going on with it")
        return job

    def _start(self, hold: Hold, predecessor: Lease | None, began: datetime) -> StageJob:
        """Start a container, after the end of every other container for this work."""
        for leftover in self._runner.find(self.work.labels()):
            self._say("the container of an earlier attempt is ended first")
            if predecessor is not None:  # what it saves at its end counts: until then the job is still its own
                hold.point_at(predecessor.attempt, predecessor.started, ending=True)
            self._runner.stop(leftover, self.work.grace_s)
            self._runner.remove(leftover)
        hold.point_at(self.work.attempt, datetime.now(UTC))
        handle = self._runner.submit(self.work.job)
        return self._own(self._under_way(hold, handle, found=False, since=began))

    def _own(self, job: StageJob) -> StageJob:
        """Send notices to stop to this job from now on, and the one that arrived while it started."""
        self._job = job
        if self._stopping:
            job.interrupt()
        return job

    def _under_way(self, hold: Hold, handle: str, *, found: bool, since: datetime) -> StageJob:
        log = TryLog(self.work, resumed=found)
        return StageJob(
            work=self.work, runner=self._runner, hold=hold, handle=handle, found=found, since=since, log=log
        )

    def _follow(self, job: StageJob) -> Outcome | None:
        """The outcome of a job, or None if another attempt has taken it over and has no result yet."""
        work, error = self.work, None
        try:
            error = self._to_end(job)
        except RatchetError as raised:  # also JobGone, if another process has removed it
            error = Preempted(f"{work.request.stage} received a notice to stop") if self._stopping else raised
        finally:
            self._release(job.hold)
        found = work.result()
        if found is None and self.lost and not self._stopping:
            return None
        if error is not None and not (self.lost and found):
            raise self._with_log(self._with_remedy(error))
        if found is None:
            error = RatchetError(
                f"{work.request.stage} ended with exit code 0 before it published its result",
                remedy="look for os._exit in the pipeline's own code; if there is none, report this bug of Ratchet, "
                "with the log",
            )
            raise self._with_log(error)
        if work.plan.kind != "reproduction":  # it is no build that a later run differs from
            work.store.create(paths.built(work.plan.spec.name, work.request.stage, work.request.fingerprint), b"")
            if work.request.stage in TRAININGS:
                trained = summaries.trained(found.result)
                remember_chosen(work.store, work.plan, trained, used=work.request.accumulation)
        return outcome_of(found, cached=False, because=work.because)

    def _to_end(self, job: StageJob) -> RatchetError | None:
        """Follow a job, and start it again whenever it was preempted and saved its work."""
        for preemptions in range(1, _MOST_PREEMPTIONS + 1):
            try:
                ended = job.follow(self._hear)
            finally:
                self.log = job.log.key
            self.last_lines = tuple(parse(line).message[:_LONGEST] for line in ended.tail)
            error = failure_of(self.work.request, ended)
            if not isinstance(error, Preempted) or self._stopping or preemptions == _MOST_PREEMPTIONS:
                break
            if not job.hold.is_ours():  # its successor has stopped it, and starts the next one
                break
            self._say(f"{error.cause}; it goes on at once ({preemptions} of at most {_MOST_PREEMPTIONS - 1} times)")
            handle = self._runner.submit(self.work.job)
            job = self._own(replace(job, handle=handle, found=False, log=TryLog(self.work)))
        return error

    def _release(self, hold: Hold) -> None:
        """Give the lease back."""
        self._job = None
        self.lost = not hold.release()

    def _with_remedy(self, error: RatchetError) -> RatchetError:
        """A training that ran out of memory computes with more micro-batches next time."""
        work = self.work
        if isinstance(error, OutOfMemory) and work.request.stage in TRAININGS:
            return remember_out_of_memory(work.store, work.plan, error, used=work.request.accumulation)
        return error

    def _with_log(self, error: RatchetError) -> RatchetError:
        """The error with the address of the log, also in a remedy that ends with `the log`."""
        if self.log is not None:
            error.log = address(self.work.store, self.log)
            if error.remedy.endswith(_THE_LOG):
                error.remedy += f" {error.log}"
        return error

    def _hear(self, line: Line) -> None:
        self._on_event(parse(line))

    def _say(self, message: str) -> None:
        self._on_event(Event(name="attempt", level="info", message=message))
