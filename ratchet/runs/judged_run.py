"""A run that came to a verdict, found by its name."""

from dataclasses import dataclass

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.request import RunPlan
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import Stage
from ratchet.runs.history import is_planned, plan_of
from ratchet.runs.outcomes import outcomes
from ratchet.runs.run_index import newest_ids
from ratchet.store.base import Store


@dataclass(frozen=True, kw_only=True)
class JudgedRun:
    """A run's plan, and the results of its stages up to evaluate."""

    plan: RunPlan
    results: dict[Stage, StageResult]


def judged_run(store: Store, target: str) -> JudgedRun:
    """The run of `PIPELINE/RUN_ID`. Raises ConfigurationError if there is none such, or it has no verdict."""
    pipeline, _, run_id = target.partition("/")
    plan = plan_of(store, pipeline, run_id) if is_planned(store, pipeline, run_id) else None
    if plan is None:
        known = [f"{pipeline}/{name}" for name in newest_ids(store, pipeline, 5)] if pipeline else []
        newest = ", ".join(known) or "none of this pipeline"
        raise ConfigurationError(
            f"no run {target!r} in {store.uri}; newest: {newest}", remedy="name one as PIPELINE/RUN; see --store"
        )
    results = {stage: found.result for stage, found in outcomes(store, pipeline, run_id).items() if found.result}
    if "evaluate" not in results:
        raise ConfigurationError(
            f"the run {target} has no verdict",
            remedy=f"see how its stages ended with `ratchet why {target}`, and name a run that was evaluated",
        )
    return JudgedRun(plan=plan, results=results)
