"""A person's approval before a better model is promoted."""

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
"""How long a question waits for an answer. After that the model is not promoted."""


class ApproveOperator(ApprovalOperator):
    """Asks a person if the verdict is promote and the run's promotion is `approve`; otherwise succeeds at once.

    A question holds no worker and no later run: when the next run is due, or after WAIT, the answer is no. A no skips
    register, and the run succeeds. The question and a no are alerts.
    """

    def __init__(self, *, pipeline: str, callbacks: AlertCallbacks, **kwargs: Any) -> None:
        super().__init__(
            task_id="approve",
            subject=f"Promote the new model of {pipeline} to production?",
            defaults=self.REJECT,
            response_timeout=WAIT,
            **kwargs,
        )
        self.pipeline = pipeline
        self.callbacks = callbacks

    def execute(self, context: Context) -> Any:
        """Ask with the verdict and its figures, or succeed."""
        from ratchet.contracts.summaries import judgement
        from ratchet.runs.outcomes import outcomes
        from ratchet.runs.planning import load_plan
        from ratchet.store.opening import open_store

        here = settings.read()
        plan = load_plan(here.store, self.pipeline, store_run_id(context["run_id"]))
        evaluated = outcomes(open_store(here.store), self.pipeline, plan.run_id)["evaluate"].result
        judged = judgement(evaluated) if evaluated else None
        if judged is None or judged.verdict != "promote" or plan.promotion.mode != "approve":
            self.log.info("no approval needed: promotion is %s", plan.promotion.mode)
            return None
        figures = "\n".join(
            f"| {name} | {value:.4f} | {judged.baseline_metrics.get(name, float('nan')):.4f} |"
            for name, value in sorted(judged.candidate_metrics.items())
        )
        self.body = f"{judged.explanation}\n\n| metric | candidate | baseline |\n|---|---|---|\n{figures}"
        now = datetime.now(UTC)
        last = answer_until(plan.spec.schedule, now)
        self.response_timeout = last - now
        self.callbacks.on_question(context, cause=judged.explanation, until=last)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Act on the answer."""
        if event.get("chosen_options") == [self.REJECT]:
            self.callbacks.on_rejection(context, cause=_reason(event.get("responded_by_user")))
        return super().execute_complete(context, event)


def answer_until(schedule: Schedule | None, now: datetime) -> datetime:
    """When a question asked now expires: when the next run is due, or after WAIT."""
    latest = now + WAIT
    if schedule is None:
        return latest
    return min(latest, DayBeforeTimetable(schedule.cron, schedule.timezone).next_after(now))


def _reason(person: Mapping[str, Any] | None) -> str:
    """Why a model with the verdict promote is not promoted."""
    return f"{person['name']} rejected it" if person else "nobody approved it in time"
