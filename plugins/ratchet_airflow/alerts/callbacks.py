"""The callbacks of a pipeline's tasks and of its DAG. No alert, sent or not, ever changes how a task ends."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from ratchet.contracts.alerts import Alerts, Occasion
from ratchet.contracts.errors import DataRejected, Preempted
from ratchet.contracts.summaries import registration
from ratchet_airflow.alerts import claims
from ratchet_airflow.alerts.deduplication import Claims
from ratchet_airflow.alerts.message import cause_of, describe
from ratchet_airflow.alerts.situation import Context, Situation
from ratchet_airflow.alerts.delivery import asked_for, tell

_log = logging.getLogger("ratchet.alerts")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCallbacks:
    """What is called when a task starts, ends or fails, by what the pipeline's file says about alerts.

    Airflow calls them in the task's own process; where that lost its heartbeat, in the DAG processor; and where it was
    killed under a supervisor that lives, nowhere. The next try, the end of the run and the watch find what that missed.
    """

    pipeline: str
    timezone: str
    alerts: Alerts

    def started(self, context: Context) -> None:
        """For on_execute_callback: the try before this one may have ended without a word."""
        with self._harmless():
            now = self._where(context)
            retries = getattr(_task(context), "retries", None)
            # A person who clears a task raises max_tries. The try before may then have ended well.
            if (now.try_number or 1) > 1 and now.max_tries == retries:
                self._retry(now.previous_try(), None)

    def failure(self, context: Context) -> None:
        """For on_failure_callback."""
        with self._harmless():
            where, error = self._where(context), context.get("exception")
            claims_ = Claims()
            if where.try_number is not None:
                claims_.take(where, claims.ended(where))
            occasion: Occasion = "refused" if isinstance(error, DataRejected) else "failure"
            tell(describe(occasion, where, error=error), where, claims.failure(where), self.alerts, claims_)

    def retry(self, context: Context) -> None:
        """For on_retry_callback."""
        with self._harmless():
            self._retry(self._where(context), context.get("exception"))

    def succeeded(self, context: Context) -> None:
        """For on_success_callback: whoever heard that the stage had failed hears that it is well."""
        with self._harmless():
            where = self._where(context)
            if (where.try_number or 1) == 1:
                return
            store = Claims()
            wanted: tuple[Occasion, ...] = ("failure", "refused", "retry")
            told = [
                alert
                for alert in store.told(where, (claims.FAILURE, claims.RETRY))
                if any(alert.get("occasion") == name and asked_for(self.alerts, name) for name in wanted)
            ]
            if told:
                said = describe("recovered", where, cause=f"before that: {told[-1]['cause']}")
                name = claims.event(where, "recovered", where.episode, where.try_number)
                tell(said, where, name, self.alerts, store)

    def skipped(self, context: Context) -> None:
        """For on_skipped_callback of register: the candidate was judged, and did not go in."""
        self.refused(context, cause=getattr(_task(context), "why_skipped", None) or "Airflow did not say why")

    def asked(self, context: Context, *, cause: str, until: datetime) -> None:
        """For the approval: a person's word is waited for."""
        with self._harmless():
            where = self._where(context)
            there = f"{where.run_link}/tasks/{where.stage}/required_actions"
            remedy = f"say yes or no at {there} until {until:%Y-%m-%d %H:%M %Z}; without a word the answer is no"
            name = claims.event(where, "approval", where.episode, where.try_number)
            tell(describe("approval", where, cause=cause, remedy=remedy), where, name, self.alerts, Claims())

    def refused(self, context: Context, *, cause: str) -> None:
        """For the approval, and for register where nobody was asked: the model does not go in."""
        with self._harmless():
            where = self._where(context)
            name = claims.event(where, "rejected", where.episode, where.try_number)
            tell(describe("rejected", where, cause=cause), where, name, self.alerts, Claims())

    def registered(self, context: Context) -> None:
        """For on_success_callback of register: a version was made, and production moved or did not."""
        with self._harmless():
            result = getattr(_task(context), "result", None)
            if result is not None and (made := registration(result)).promoted:
                where = self._where(context)
                name = claims.event(where, "promoted", made.model, made.version)
                said = describe("promoted", where, cause=f"{made.model} version {made.version}")
                tell(said, where, name, self.alerts, Claims())

    def run_failed(self, context: Context) -> None:
        """For the DAG's on_failure_callback: what no task could say."""
        with self._harmless():
            where, reason = self._where(context), context.get("reason")
            if reason == "task_failure":
                if where.try_number is not None:  # the task that failed last
                    tell(describe("failure", where), where, claims.failure(where), self.alerts, Claims())
                return
            words = {"timed_out": "the run took longer than it may", "all_tasks_deadlocked": "no task can go on"}
            run = where.whole_run()
            said = describe("failure", run, cause=words.get(str(reason), f"Airflow says {reason}"))
            tell(said, run, claims.failure(run), self.alerts, Claims())

    def _retry(self, where: Situation, error: BaseException | None) -> None:
        store = Claims()
        if not store.take(where, claims.ended(where)) or isinstance(error, Preempted):
            return  # somebody has told about this try; or it saved its work and goes on, and nothing failed
        said = describe("retry", where, error=error)
        tell(said, where, claims.retry(where, cause_of(error)), self.alerts, store)

    def _where(self, context: Context) -> Situation:
        return Situation.of(context, pipeline=self.pipeline, timezone=self.timezone)

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # noqa: BLE001 - an alert that cannot be made must not fail a task, whatever the reason
            _log.exception("the alert about %s could not be made", self.pipeline)


def _task(context: Context) -> object:
    """The operator. What it learned in `execute` is still on it when its callbacks are called."""
    return getattr(context.get("ti"), "task", None)
