"""The approval of a better model by one person, or by two, before it is promoted. See docs/adr/027.

A change here violates the promise of the project when an answer of somebody who is not asked counts, or when an answer
is acted on that the store does not record.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, Param

from ratchet.contracts.approval import Answer, approvals, why_not_approved, why_not_counted
from ratchet.contracts.request import RunPlan
from ratchet.contracts.result import StageResult
from ratchet.contracts.schedule import Schedule
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import judgement, snapshot, trained
from ratchet_airflow.alerts.callbacks import AlertCallbacks
from ratchet_airflow.links import verdict_of
from ratchet_airflow.outages import USUAL, waits_for_outages
from ratchet_airflow.plans import find_plan
from ratchet_airflow.public_links import airflow_url
from ratchet_airflow.question import asked, question
from ratchet_airflow.timetable import DayBeforeTimetable

Results = dict[Stage, StageResult]

WAIT = timedelta(days=7)
"""How long a question waits for an answer. After that the model is not promoted."""
_TEXT = "comment"
_ANSWER = "ratchet_answer"
"""The key of an answer that came while the store did not answer, after max_tries, which a clear raises."""


class ApproveOperator(ApprovalOperator):
    """Asks a person if the verdict is promote and the run's promotion is `approve`; otherwise succeeds at once.

    Each answer that counts is recorded in the store, with its person; register reads that record, and not the state of
    this task. One that does not count, such as that of somebody who is not in `register.approvers`, changes nothing,
    and the question is asked again. A question holds no worker and no later run: when the next run is due, or after
    WAIT, the answer is no. A no skips register, and the run succeeds. The question and a no are alerts. What does not
    answer is waited for; an answer of a person that comes meanwhile is kept, and recorded then.
    """

    def __init__(self, *, pipeline: str, callbacks: AlertCallbacks, **kwargs: Any) -> None:
        comment = Param(
            None, type=["null", "string"], maxLength=2000, title="Comment", description="Kept with the answer."
        )
        super().__init__(
            task_id="approve",
            subject=f"Promote the new model of {pipeline} to production?",
            defaults=self.REJECT,
            response_timeout=WAIT,
            params={_TEXT: comment},
            **kwargs,
        )
        self.pipeline = pipeline
        self.callbacks = callbacks
        self.handling, self.on_outage, self.has_waited = USUAL, callbacks.on_outage, False

    @waits_for_outages
    def execute(self, context: Context) -> Any:
        """Ask with the verdict and its figures, or succeed; or act on an answer that waits to be recorded."""
        event = _kept_answer(context)
        return self._ask_first(context) if event is None else self._settle(context, event)

    @waits_for_outages
    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Record the answer and act on it, or ask again where it does not count."""
        _keep_answer(context, event)  # Airflow gives it once: after a wait it calls `execute`
        return self._settle(context, event)

    def _ask_first(self, context: Context) -> Any:
        plan, results = self._read(context)
        evaluated = results.get("evaluate")
        if evaluated is None or judgement(evaluated).verdict != "promote" or plan.promotion.mode != "approve":
            self.log.info("no approval needed: promotion is %s", plan.promotion.mode)
            return None
        answers = self._answers(plan)
        lacking = self._lacking(plan, answers, evaluated.content)
        if not lacking:
            self.log.info("approved before: %s", "; ".join(one.line for one in approvals(answers, evaluated.content)))
            return None
        return self._ask(context, plan, results, answers)

    def _settle(self, context: Context, event: dict[str, Any]) -> Any:
        plan, results = self._read(context)
        evaluation = results["evaluate"].content
        register, answers = plan.spec.register_, self._answers(plan)
        person: Mapping[str, Any] | None = event.get("responded_by_user")
        by, yes = str(person["name"]) if person else "", event.get("chosen_options") == [self.APPROVE]
        if yes and not self._lacking(plan, answers, evaluation):
            _drop_answer(context)  # recorded by a try that was killed before it could drop it
            return super().execute_complete(context, event)
        ours = not register.approvers or by in register.approvers or not (by or yes)
        reason = "" if ours else f"{by or 'nobody'} is not in register.approvers ({', '.join(register.approvers)})"
        if yes and not reason:
            earlier = approvals(answers, evaluation)
            reason = why_not_counted(by, register, started_by=plan.started_by, earlier=earlier)
        if reason:
            self.log.warning("this answer does not count, and the question is asked again: %s", reason)
            _drop_answer(context)
            return self._ask(context, plan, results, answers)
        made = self._record(plan, event, by=by, evaluation=evaluation)
        _drop_answer(context)
        if not yes:
            self.callbacks.on_rejection(context, cause=_reason(made))
            return super().execute_complete(context, event)
        if lacking := self._lacking(plan, (*answers, made), evaluation):
            self.log.info("%s; asking again", lacking)
            return self._ask(context, plan, results, (*answers, made))
        return super().execute_complete(context, event)

    def _ask(self, context: Context, plan: RunPlan, results: Results, answers: tuple[Answer, ...]) -> Any:
        """Put the question. Airflow keeps the first text of a question that is asked again."""
        judged, model, data = judgement(results["evaluate"]), trained(results["train"]), snapshot(results["ingest"])
        page = f"{airflow_url()}{verdict_of(self.pipeline, plan.run_id)}"
        window = (data.days[0].day, data.days[-1].day)
        self.body = question(plan, judged, candidate=model.digest, window=window, page=page)
        now = datetime.now(UTC)
        last = answer_until(plan.spec.schedule, now)
        self.response_timeout = last - now
        self.assigned_users = _assigned(plan.spec.register_.approvers)
        given = approvals(answers, results["evaluate"].content)
        said = f"{', '.join(one.by for one in given)} approved it, and a second person has to; " if given else ""
        self.callbacks.on_question(
            context, cause=f"{said}{judged.explanation}", who=asked(plan, last), given=len(given), page=page
        )
        return super().execute(context)

    def _record(self, plan: RunPlan, event: Mapping[str, Any], *, by: str, evaluation: str) -> Answer:
        from ratchet.runs.answers import record_answer
        from ratchet.runs.run_index import note_end
        from ratchet.store.opening import open_store

        store = open_store(plan.store)
        yes = event.get("chosen_options") == [self.APPROVE]
        made = record_answer(
            store,
            plan,
            "yes" if yes else "no",
            by=by,
            at=event.get("responded_at") or datetime.now(UTC),
            text=str((event.get("params_input") or {}).get(_TEXT) or ""),
            evaluation=evaluation,
        )
        self.log.info("recorded: %s", made.line)
        note_end(store, plan)  # the page of nights says whether it waits for an answer
        return made

    def _read(self, context: Context) -> tuple[RunPlan, Results]:
        """The plan of the run, and the results of its stages so far."""
        from ratchet.runs.outcomes import outcomes
        from ratchet.store.opening import open_store

        plan = find_plan(self.pipeline, str(context["run_id"]), context)
        ended = outcomes(open_store(plan.store), self.pipeline, plan.run_id)
        return plan, {stage: outcome.result for stage, outcome in ended.items() if outcome.result is not None}

    def _answers(self, plan: RunPlan) -> tuple[Answer, ...]:
        from ratchet.runs.answers import answers
        from ratchet.store.opening import open_store

        return answers(open_store(plan.store), plan.spec.name, plan.run_id)

    @staticmethod
    def _lacking(plan: RunPlan, answers: tuple[Answer, ...], evaluation: str) -> str:
        return why_not_approved(answers, plan.spec.register_, started_by=plan.started_by, evaluation=evaluation)


def _keep_answer(context: Context, event: Mapping[str, Any]) -> None:
    states = context.get("task_state_store")
    if states is not None and "error" not in event:
        kept = {**event, "responded_at": event["responded_at"].isoformat()}
        states.set(_ANSWER, [context["ti"].max_tries, kept])


def _kept_answer(context: Context) -> dict[str, Any] | None:
    """An answer that was not recorded, as Airflow gave it; None where there is none, and after a clear."""
    states = context.get("task_state_store")
    found: Any = states.get(_ANSWER) if states is not None else None
    of_tries, kept = found or (None, None)
    if kept is None or of_tries != context["ti"].max_tries:
        return None
    return {**kept, "responded_at": datetime.fromisoformat(kept["responded_at"])}


def _drop_answer(context: Context) -> None:
    states = context.get("task_state_store")
    if states is not None:
        states.delete(_ANSWER)


def answer_until(schedule: Schedule | None, now: datetime) -> datetime:
    """When a question asked now expires: when the next run is due, or after WAIT."""
    latest = now + WAIT
    if schedule is None:
        return latest
    return min(latest, DayBeforeTimetable(schedule.cron, schedule.timezone).next_after(now))


def _assigned(approvers: tuple[str, ...]) -> Any:
    """The approvers as Airflow compares them itself, by the ids of users.

    Only with SimpleAuthManager a person's name is their id. Elsewhere Airflow lets everybody answer whom it lets answer
    at all, and the answer of another person does not count.
    """
    from airflow.configuration import conf

    if not conf.get("core", "auth_manager", fallback="").endswith(".SimpleAuthManager"):
        return None
    return [{"id": name, "name": name} for name in approvers] or None


def _reason(answer: Answer) -> str:
    """Why a model with the verdict promote is not promoted."""
    if not answer.by:
        return "nobody approved it in time"
    return f"{answer.by} rejected it{f': {answer.text}' if answer.text else ''}"
