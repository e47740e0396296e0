"""A task that leaves the container of its attempt to the triggerer, or to the follower of its host, and is deferred.

A task of this kind makes its attempt with the `Leave` of `when_to_leave`, sets `_attempt` before it calls `compute`,
calls `leave_container` where LeftRunning is raised, and goes on with a method `go_on`, which begins with `left_before`.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import Preempted
from ratchet_airflow.leaving import left_to, who_is_away
from ratchet_airflow.progress import fields_of, level_of, line_of
from ratchet_airflow.resuming import GOES_ON, FollowsItself

if TYPE_CHECKING:
    from ratchet.runners.following import Leave
    from ratchet.runners.runner import Runner
    from ratchet.runs.attempt import Attempt
    from ratchet.runs.events import Event
    from ratchet.runs.work import Work
    from ratchet_airflow.container_trigger import ContainerTrigger

_LATE_S = 900.0
"""Seconds past the time of a stage after which its deferred task follows the container itself: no triggerer does."""


class LeavesContainer(FollowsItself):
    """A task that may leave its container where RATCHET_DEFER_SECONDS says so, unless it follows it itself."""

    _attempt: "Attempt"
    """The attempt whose container it is. Set before its `compute`."""
    killed = False

    def when_to_leave(self, runner: "Runner", *, again: bool) -> "Leave":
        """When the container is left; never a process, which ends with its task. again: once more."""
        from ratchet.runners.following import Leave

        here = environment()
        every_s, _ = here.defer_seconds, here.follower  # a wrong one is said before a container starts
        if not every_s:
            return Leave()
        stays = self.follows_itself or not again or not runner.durable
        return Leave(every_s) if stays else Leave(every_s, lambda: self._may_leave(runner))

    def _may_leave(self, runner: "Runner") -> bool:
        if self.killed:
            return False
        away = who_is_away(self._attempt.work, runner)
        if away:
            self.log.info("%s, so this task follows its container itself", " and ".join(away))
        return not away

    def leave_container(self, work: "Work", runner: "Runner", states: Any, **more: Any) -> NoReturn:
        """Leave the container, and go on with `go_on` when the trigger says so. more: what `go_on` gets as well."""
        if self.killed:  # it came too late for `compute` to see it
            self._attempt.interrupt()
            raise Preempted(f"{work.request.stage} received a notice to stop")
        who, left = left_to(work, runner, self._attempt.followed, states)
        self.log.info("it runs for long: %s follows its container from here on", who)
        self.defer(
            trigger=self.make_trigger(**left),
            method_name=GOES_ON,
            kwargs={
                "request": left["request"],
                "because": work.because,
                "preemptions": self._attempt.preemptions,
                **more,
            },
            timeout=timedelta(seconds=work.timeout_s + work.grace_s + _LATE_S),
        )

    def make_trigger(self, **left: Any) -> "ContainerTrigger":
        """The trigger that follows it. left: what `left_to` says."""
        from ratchet_airflow.container_trigger import ContainerTrigger

        return ContainerTrigger(**left)

    def on_kill(self) -> None:
        """Airflow gives a task five seconds to stop. Another process gives the stage its whole grace."""
        self.killed = True
        attempt = getattr(self, "_attempt", None)
        if attempt is not None:
            attempt.interrupt()

    def log_event(self, event: "Event") -> None:
        """Write what the stage says to the log of the task."""
        self.log.log(level_of(event), line_of(event), **fields_of(event))


def left_before(event: Mapping[str, Any] | None, left: Mapping[str, Any]) -> dict[str, Any]:
    """What a task goes on with: why and how, as its trigger says, and what it has left (`leave_container`)."""
    return {"why": "it says nothing", "again": False, "log": None, **(event or {}), **left}
