"""A person's word before a better model goes in."""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

from ratchet_airflow import settings
from ratchet_airflow.run_id import store_run_id

WAIT = timedelta(days=7)
"""How long a person has. After that the model stays out."""


class ApproveOperator(ApprovalOperator):
    """Asks if the verdict is promote and this run's promotion waits for a person; else it is done at once.

    Asking holds no worker. A refusal skips register, and the run ends well.
    """

    def __init__(self, *, pipeline: str, **kwargs: Any) -> None:
        super().__init__(
            task_id="approve",
            subject=f"May the new model of {pipeline} become production?",
            defaults=self.REJECT,
            response_timeout=WAIT,
            **kwargs,
        )
        self.pipeline = pipeline

    def execute(self, context: Context) -> Any:
        """Ask, with the verdict and its figures, or go on."""
        from tasks.chain.outcomes import outcomes  # noqa: PLC0415 - the DAG file is parsed without it
        from tasks.chain.planning import load_plan  # noqa: PLC0415
        from tasks.contracts.documents import judgement  # noqa: PLC0415
        from tasks.runtime.store.opening import open_store  # noqa: PLC0415

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
        return super().execute(context)
