"""The callbacks of a pipeline's tasks and of its DAG. No alert, sent or not, changes how a task ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from ratchet.contracts.alerts import Alerts, Occasion
from ratchet.contracts.errors import DataRejected, Preempted
from ratchet.contracts.masking import masked_logger
from ratchet.contracts.summaries import judgement, registration
from ratchet.outbox.outbox import utc
from ratchet_airflow.alerts import deduplication, unmeasured
from ratchet_airflow.alerts.alert import Alert
from ratchet_airflow.alerts.deduplication import AlertHistory, event_key, failure_key
from ratchet_airflow.alerts.delivery import is_wanted, post_what_waits, send_once
from ratchet_airflow.alerts.message import cause_of, make_alert
from ratchet_airflow.alerts.situation import Context, Situation
from ratchet_airflow.outages import limit_s

_log = masked_logger("ratchet.alerts")
_BY_HAND = "`ratchet promote MODEL@VERSION --because WHY`, or the DAG ratchet_promote, promotes a version by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCallbacks:
    """What Airflow calls when a task starts, ends or fails; the pipeline's file says which alerts are sent.

    Airflow calls them in the task's own process; after a lost heartbeat, in the DAG processor; after a kill under a
    live supervisor, nowhere. The next try, the end of the run and the watch report what no callback did.
    """

    pipeline: str
    timezone: str
    alerts: Alerts

    def on_start(self, context: Context) -> None:
        """For on_execute_callback: report the try before this one if no callback has."""
        with self._guard():
            post_what_waits(AlertHistory())
            now = self._situation(context)
            retries = getattr(_task(context), "retries", None)
            # A person who clears a task raises max_tries. The try before may then have ended well.
            if (now.try_number or 1) > 1 and now.max_tries == retries:
                before, history = now.previous_try(), AlertHistory()
                if not _ended_with_an_alert(before, history):
                    self._report_retry(before, None, history)

    def on_failure(self, context: Context) -> None:
        """For on_failure_callback."""
        with self._guard():
            where, error = self._situation(context), context.get("exception")
            history = AlertHistory()
            if where.try_number is not None:
                history.add(where, deduplication.end_key(where))
            occasion: Occasion = "refused" if isinstance(error, DataRejected) else "failure"
            self._send(make_alert(occasion, where, error=error), where, failure_key(where), history)

    def on_retry(self, context: Context) -> None:
        """For on_retry_callback."""
        with self._guard():
            self._report_retry(self._situation(context), context.get("exception"), AlertHistory())

    def on_outage(self, context: Context, error: BaseException, decision: str) -> None:
        """For a try that waits for what does not answer: report the cause, once. decision: what happens next."""
        with self._guard():
            where = self._situation(context)
            key = deduplication.retry_key(where, cause_of(error))
            handling = getattr(_task(context), "handling", None)
            most_s = limit_s(handling, error) if handling is not None else 0.0
            until = (utc() + timedelta(seconds=most_s)).isoformat() if most_s else ""
            alert = replace(make_alert("retry", where, error=error, decision=decision), waits_until=until)
            self._send(alert, where, key)

    def on_success(self, context: Context) -> None:
        """For on_success_callback: report the recovery of a stage whose failure was sent."""
        with self._guard():
            where = self._situation(context)
            if (where.try_number or 1) == 1 and not getattr(_task(context), "has_waited", False):
                return
            history = AlertHistory()
            failures: tuple[Occasion, ...] = ("failure", "refused", "retry")
            sent = [
                alert
                for alert in history.alerts(where, (deduplication.FAILURE, deduplication.RETRY))
                if any(alert.get("occasion") == name and is_wanted(self.alerts, name) for name in failures)
            ]
            if sent:
                alert = make_alert(
                    "recovered",
                    where,
                    cause=f"before that: {sent[-1]['cause']}",
                    shared_cause=sent[-1].get("shared_cause", ""),
                )
                self._send(alert, where, event_key(where, "recovered", where.episode, where.try_number), history)

    def on_skip(self, context: Context) -> None:
        """For on_skipped_callback of register: the candidate is not registered."""
        self.on_rejection(context, cause=getattr(_task(context), "why_skipped", None) or "Airflow reports no reason")

    def on_question(self, context: Context, *, cause: str, who: str, given: int, page: str) -> None:
        """For the approval: a person has to answer.

        who: who may, and until when. given: how many have approved, since each further question is another event. page:
        the address of the verdict.
        """
        with self._guard():
            where = self._situation(context)
            question = f"{where.run_link}/tasks/{where.stage}/required_actions"
            key = event_key(where, "approval", where.episode, where.try_number, *([given] if given else []))
            alert = make_alert(
                "approval", where, cause=cause, remedy=f"approve or reject at {question}: {who}", report=page
            )
            self._send(alert, where, key)

    def on_rejection(self, context: Context, *, cause: str) -> None:
        """For the approval, and for register without one: the candidate is not promoted."""
        with self._guard():
            where = self._situation(context)
            key = event_key(where, "rejected", where.episode, where.try_number)
            self._send(make_alert("rejected", where, cause=cause), where, key)

    def on_judgement(self, context: Context) -> None:
        """For on_success_callback of evaluate: report a champion that no later night will measure by itself.

        Where register makes a version for a person to promote, its callback reports it, with the version.
        """
        with self._guard():
            result = getattr(_task(context), "result", None)
            if result is None or judgement(result).offered:
                return
            unmeasured.report(judgement(result), self._situation(context), self.alerts)

    def on_registration(self, context: Context) -> None:
        """For on_success_callback of register: report the version if it was promoted, or withheld for a reason.

        A run that was not to move production, as a backfill, withholds nothing that anybody waits for.
        """
        with self._guard():
            task = _task(context)
            result = getattr(task, "result", None)
            if result is None:
                return
            made, where = registration(result), self._situation(context)
            if made.promoted:
                repeated = f", a refit of the measured model {made.refit_of[:12]}," if made.refit_of else ""
                cause = f"{made.model} version {made.version}{repeated} is in production"
                alert = make_alert("promoted", where, cause=cause)
                self._send(alert, where, event_key(where, "promoted", made.model, made.version))
            elif made.command:
                unmeasured.report_offer(made, where, self.alerts)
            elif made.withheld and getattr(task, "may_promote", False):
                cause = f"{made.model} version {made.version} is better and not in production: {made.withheld}"
                alert = make_alert("withheld", where, cause=cause, remedy="read the report of the run; " + _BY_HAND)
                self._send(alert, where, event_key(where, "withheld", where.episode))

    def on_run_failure(self, context: Context) -> None:
        """For the DAG's on_failure_callback: report what no task could."""
        with self._guard():
            where, reason = self._situation(context), context.get("reason")
            if reason == "task_failure":
                if where.try_number is not None:  # the task that failed last
                    self._send(make_alert("failure", where), where, failure_key(where))
                return
            causes = {"timed_out": "the run exceeded its time limit", "all_tasks_deadlocked": "no task can start"}
            run = where.whole_run()
            alert = make_alert("failure", run, cause=causes.get(str(reason), f"Airflow reports {reason}"))
            self._send(alert, run, failure_key(run))

    def _report_retry(self, where: Situation, error: BaseException | None, history: AlertHistory) -> None:
        """Its end is on record once its letters are: what is killed in between is reported by the next try."""
        end = deduplication.end_key(where)
        if history.has(where, end):
            return
        if not isinstance(error, Preempted):  # that one saved its work and resumes, and nothing failed
            key = deduplication.retry_key(where, cause_of(error))
            self._send(make_alert("retry", where, error=error), where, key, history)
        history.add(where, end)

    def _send(self, alert: Alert, where: Situation, key: str, history: AlertHistory | None = None) -> None:
        send_once(alert, where, key, self.alerts, history or AlertHistory())

    def _situation(self, context: Context) -> Situation:
        return Situation.of(context, pipeline=self.pipeline, timezone=self.timezone)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # noqa: BLE001 - an alert that cannot be made must not fail a task, whatever the reason
            _log.exception("cannot make the alert about %s", self.pipeline)


def _ended_with_an_alert(where: Situation, history: AlertHistory) -> bool:
    """Whether the end of a try was reported by a process that was killed before it put the end on record."""
    sent = history.alerts(where, (deduplication.RETRY,))
    return any(alert.get("attempt") == where.attempt and not alert.get("waits_until") for alert in sent)


def _task(context: Context) -> object:
    """The operator. What it set in `execute` is still there when its callbacks are called."""
    return getattr(context.get("ti"), "task", None)
