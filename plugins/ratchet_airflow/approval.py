"""A person's word before a better model goes in."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

from ratchet.contracts.schedule import Schedule
from ratchet_airflow import settings
from ratchet_airflow.alerts.callbacks import AlertCallbacks
from ratchet_airflow.run_id import store_run_id
from ratchet_airflow.timetable import DayBeforeTimetable

WAIT = timedelta(days=7)
"""How long a person has at most. After that the model stays out."""


class ApproveOperator(ApprovalOperator):
    """Asks if the verdict is promote and this run's promotion waits for a person; else it is done at once.

    Asking holds no worker, and no later night: when the next one is due, or after WAIT, the answer is no. A no skips
    register, and the run ends well. People are told of the question, and of a no.
    """

    def __init__(self, *, pipeline: str, callbacks: AlertCallbacks, **kwargs: Any) -> None:
        super().__init__(
            task_id="approve",
            subject=f"May the new model of {pipeline} become production?",
            defaults=self.REJECT,
            response_timeout=WAIT,
            **kwargs,
        )
        self.pipeline = pipeline
        self.callbacks = callbacks

    def execute(self, context: Context) -> Any:
        """Ask, with the verdict and its figures, or go on."""
        from ratchet.contracts.summaries import judgement
        from ratchet.runs.outcomes import outcomes
        from ratchet.runs.planning import load_plan
        from ratchet.store.opening import open_store

        here = settings.read()
        plan = load_plan(here.store, self.pipeline, store_run_id(context["run_id"]))
        evaluated = outcomes(open_store(here.store), self.pipeline, plan.run_id)["evaluate"].result
        judged = judgement(evaluated) if evaluated else None
        if judged is None or judged.verdict != "promote" or plan.promotion.mode != "approve":
            self.log.info("nothing to ask: promotion is %s", plan.promotion.mode)
            return None
        figures = "\n".join(
            f"| {name} | {value:.4f} | {judged.baseline_metrics.get(name, float('nan')):.4f} |"
            for name, value in sorted(judged.candidate_metrics.items())
        )
        self.body = f"{judged.explanation}\n\n| metric | candidate | baseline |\n|---|---|---|\n{figures}"
        now = datetime.now(UTC)
        last = answer_until(plan.spec.schedule, now)
        self.response_timeout = last - now
        self.callbacks.asked(context, cause=judged.explanation, until=last)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on with the answer."""
        if event.get("chosen_options") == [self.REJECT]:
            self.callbacks.refused(context, cause=_who(event.get("responded_by_user")))
        return super().execute_complete(context, event)


def answer_until(schedule: Schedule | None, now: datetime) -> datetime:
    """When a question that is asked now has lapsed: a newer model is on its way then, or nobody cares any more."""
    latest = now + WAIT
    if schedule is None:
        return latest
    return min(latest, DayBeforeTimetable(schedule.cron, schedule.timezone).next_after(now))


def _who(person: Mapping[str, Any] | None) -> str:
    """Why a model that may go in does not."""
    return f"{person['name']} said no" if person else "nobody said yes in time"
