"""One attempt at a stage: the cache, the lease, the container that is started or found again, and its end.

A change here violates the promise of the project when two containers of one fingerprint compute at the same time, or a
container goes on that nobody will ever look at again.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, JobGone, OutOfMemory, Preempted, RatchetError, Unavailable
from ratchet.contracts.labels import Label
from ratchet.contracts.quantities import show_duration
from ratchet.contracts.request import Outcome, RunPlan, StageRequest
from ratchet.contracts.result import Published
from ratchet.contracts.stages import Stage
from ratchet.runners.detached import end_later
from ratchet.runners.following import Ended, follow_to_end
from ratchet.runners.job import Job
from ratchet.runners.runner import Runner
from ratchet.runs.accumulation import halve
from ratchet.runs.events import Event, parse
from ratchet.runs.failures import failure_of
from ratchet.runs.jobs import job_for, store_label
from ratchet.runs.outcomes import outcome_of, outcomes, why_built
from ratchet.runs.requests import compose, why_skipped
from ratchet.store.base import Store
from ratchet.store.lease import Hold, Lease, Waiting, wanted
from ratchet.store.opening import open_store
from ratchet.store.publishing import discard_damaged, published

OnEvent = Callable[[Event], None]
_POLL_S = 0.3
_MOST_PREEMPTIONS = 20
_LONGEST = 1000
"""Characters of a line that is kept with the outcome."""


@dataclass
class Attempt:
    """One attempt. Call `ready`; unless it has an outcome `begin`; unless that has one `follow`.

    name: names this attempt, and its container; no two attempts share it.
    fresh: whether a container of an earlier attempt is ended rather than followed.
    """

    plan: RunPlan
    stage: Stage
    runner: Runner
    name: str
    on_event: OnEvent
    fresh: bool = False
    stopping: bool = False
    """Set by whoever interrupts: then a stage that was told to stop is not started again."""
    lost: bool = field(init=False, default=False)
    """Whether another attempt has taken this over; then how it ends is that attempt's to say."""
    last_lines: tuple[str, ...] = field(init=False, default=())
    """Of the stage's log, once it has ended: the container and its log are gone by then."""
    _request: StageRequest = field(init=False)
    _because: str = field(init=False, default="")
    _hold: Hold | None = field(init=False, default=None)
    _handle: str = field(init=False, default="")
    _found: bool = field(init=False, default=False)
    _clock: datetime = field(init=False)
    """Since when the stage's time runs: this attempt's beginning, or that of the attempt whose container is found."""

    def __post_init__(self) -> None:
        self._store: Store = open_store(self.plan.store)

    def ready(self) -> Outcome | None:
        """The outcome, if nothing has to be computed: skipped, or published before."""
        so_far = outcomes(self._store, self.plan.spec.name, self.plan.run_id)
        so_far.pop(self.stage, None)
        if reason := why_skipped(self.stage, so_far):
            return Outcome(stage=self.stage, state="skipped", because=reason)
        self._request = compose(self._store, self.plan, self.stage, so_far, self.name)
        found = self._cached()
        if found is not None:
            return outcome_of(found, cached=True, because="published before")
        self._because = why_built(self._store, self._request)
        return None

    def begin(self, earlier: str | None = None) -> Outcome | None:
        """Have the computation under way, or its outcome if another attempt came to one meanwhile.

        earlier: the name of an attempt whose container is to be followed, if it is still there.
        """
        self._clock = datetime.now(UTC)
        limit_s = self.plan.spec.stages[self.stage].timeout
        waiting = Waiting(self._store, self._lease, wanted(self.plan.run_id, self.name))
        told = False
        while (hold := waiting.take()) is None:
            if not told and (holder := waiting.holder) is not None:
                told = True
                self._say(f"run {holder.run_id} computes the same since {holder.started:%H:%M:%S}; waiting for it")
            time.sleep(_POLL_S)
            if self.stopping:
                raise Preempted(f"{self.stage} was told to stop while it waited for another run")
            if (datetime.now(UTC) - self._clock).total_seconds() > limit_s:
                raise Unavailable(
                    f"{self.stage} waited {show_duration(limit_s)} for another run that computes the same",
                    remedy=f"see what holds that run up, or raise stages.{self.stage}.timeout",
                )
            if (found := published(self._store, self._request.prefix)) is not None:
                return _built_by_another(found)
        self._hold = hold
        try:
            found = published(self._store, self._request.prefix)
            if found is None:
                self._start(earlier, waiting.predecessor)
                return None
        except BaseException:
            self.release()
            raise
        self.release()
        return _built_by_another(found)

    def follow(self) -> Outcome:
        """See the computation to its end. Raises the RatchetError that says why it failed."""
        try:
            error = self._to_end()
        except RatchetError as raised:  # also JobGone, once somebody else has seen to it
            error = Preempted(f"{self.stage} was told to stop") if self.stopping else raised
        finally:
            self.release()
        made = published(self._store, self._request.prefix)
        if made is None and self.lost and not self.stopping:
            self._say("another attempt has taken this over")
            return self.begin() or self.follow()
        if error is not None and not (self.lost and made):
            raise self._smaller(error) if isinstance(error, OutOfMemory) and self.stage == "train" else error
        if made is None:
            raise RatchetError(
                f"{self.stage} ended well but published nothing", remedy="this is a bug of Ratchet; keep the log"
            )
        self._store.create(paths.built(self.plan.spec.name, self.stage, self._request.fingerprint), b"")
        return outcome_of(made, cached=False, because=self._because)

    def _smaller(self, error: OutOfMemory) -> RatchetError:
        """What ran out of memory, with what the next try does about it."""
        parts = halve(self._store, self.plan, used=self._request.accumulation)
        if parts is None:
            hopeless = ConfigurationError(
                f"{error.cause}, and its micro-batches cannot be smaller", remedy="raise resources.train.memory"
            )
            hopeless.last_lines = error.last_lines
            return hopeless
        error.remedy = (
            f"nothing now: the next try, and the nights after it, compute a step in {parts} micro-batches; "
            "with more resources.train.memory they would not have to"
        )
        return error

    def is_there(self, attempt: str) -> bool:
        """Whether an attempt's container of this computation is there, running or ended."""
        return bool(self.runner.find(self._labels(attempt)))

    def interrupt(self) -> None:
        """Tell the stage to stop, and return at once. It has its whole grace; what is left after that is removed."""
        self.stopping = True
        if self._handle:
            if self.runner.durable:
                end_later(
                    self._handle,
                    self.plan.spec.stages[self.stage].grace,
                    store=self.plan.store,
                    lease=self._lease,
                    holder=self.name,
                )
            else:
                self.runner.notify(self._handle)

    def release(self) -> None:
        """Give the lease back."""
        hold, self._hold = self._hold, None
        if hold is not None:
            self.lost = not hold.release()

    def _start(self, earlier: str | None, predecessor: Lease | None) -> None:
        """Find the container of an earlier attempt, or start one when nothing computes this any more."""
        if predecessor is not None and predecessor.ending:
            earlier = None
        elif earlier is None and predecessor is not None and not self.fresh:
            earlier = predecessor.attempt
        if earlier is not None and (found := self._begun(earlier)):
            self._handle, self._found = found[0], True
            if predecessor is not None:
                self._clock = predecessor.started
            self._names(earlier, self._clock)
            self._say(f"the container of attempt {earlier} is still there; going on with it")
            return
        for leftover in self.runner.find(self._labels()):
            self._say("the container of an earlier attempt is ended first")
            if predecessor is not None:  # what it saves at its end counts: until then the computation is still its own
                self._names(predecessor.attempt, predecessor.started, ending=True)
            self.runner.stop(leftover, self.plan.spec.stages[self.stage].grace)
            self.runner.remove(leftover)
        self._names(self.name, datetime.now(UTC))
        self._submit()

    def _begun(self, attempt: str) -> list[str]:
        """The containers of an attempt that run or have ended, and not one whose maker died before it started it."""
        begun = []
        for found in self.runner.find(self._labels(attempt)):
            with suppress(JobGone):
                if self.runner.status(found).begun:
                    begun.append(found)
        return begun

    def _names(self, attempt: str, started: datetime, *, ending: bool = False) -> None:
        """Let the lease name the computation that is under way, if it names another."""
        if self._hold is not None and self._hold.computes != attempt:
            self._hold.follows(attempt, started, ending=ending)

    def _labels(self, attempt: str | None = None) -> dict[str, str]:
        labels = {
            Label.STORE: store_label(self._request.store),
            Label.PIPELINE: self.plan.spec.name,
            Label.FINGERPRINT: self._request.fingerprint,
        }
        return {**labels, Label.ATTEMPT: attempt} if attempt else labels

    def _submit(self) -> None:
        self._handle, self._found = self.runner.submit(self._job), False

    def _to_end(self) -> RatchetError | None:
        """Follow, and start again what was told to stop by somebody else and saved its work."""
        for preemptions in range(1, _MOST_PREEMPTIONS + 1):
            error = failure_of(self._request, self._ended())
            if not isinstance(error, Preempted) or self.stopping or preemptions == _MOST_PREEMPTIONS:
                break
            self._say(f"{error.cause}; it goes on at once ({preemptions} of at most {_MOST_PREEMPTIONS - 1} times)")
            self._submit()
        return error

    def _ended(self) -> Ended:
        elapsed = (datetime.now(UTC) - self._clock).total_seconds()
        ended = follow_to_end(
            self.runner,
            self._handle,
            self._job,
            lambda line: self.on_event(parse(line)),
            started=time.monotonic() - elapsed,
            resume=self._found,
            is_ours=lambda: self._hold is None or self._hold.is_ours(),
        )
        self.last_lines = tuple(parse(line).message[:_LONGEST] for line in ended.tail)
        return ended

    @cached_property
    def _lease(self) -> str:
        return paths.lease(self.plan.spec.name, self.stage, self._request.fingerprint)

    @cached_property
    def _job(self) -> Job:
        image = self.plan.pins.image
        return job_for(self._request, self._store, None if image == "process" else image)

    def _cached(self) -> Published | None:
        """What stands under the fingerprint, if its bytes are whole. What is damaged is moved aside and built again."""
        prefix = self._request.prefix
        if damaged := discard_damaged(self._store, prefix):
            message = f"{prefix}: {', '.join(damaged)} damaged, so it is built again"
            self.on_event(Event(name="warning", level="warning", message=message))
        return published(self._store, prefix)

    def _say(self, message: str) -> None:
        self.on_event(Event(name="info", level="info", message=message))


def _built_by_another(found: Published) -> Outcome:
    return outcome_of(found, cached=True, because=f"another run built it (attempt {found.result.attempt})")
