"""The work of a task that helps a stage: to make parts of days that the stage finds then."""

from contextlib import suppress

from ratchet.contracts import paths
from ratchet.contracts.fingerprint import fingerprint
from ratchet.contracts.request import RunPlan
from ratchet.contracts.stages import Stage
from ratchet.runs.outcomes import outcomes
from ratchet.runs.requests import compose
from ratchet.runs.work import Work
from ratchet.store.base import Store
from ratchet.store.publishing import find_result


def share(store: Store, plan: RunPlan, stage: Stage, number: int, attempt: str) -> Work | None:
    """What the task of this number computes; None where the stage has its result, or makes every day again.

    Raises ConfigurationError if a stage before it has no result in this run.
    """
    request = compose(store, plan, stage, outcomes(store, plan.spec.name, plan.run_id), attempt)
    if plan.rebuild or find_result(store, request.prefix):
        return None
    parts = {**request.parts, "share": attempt}
    shared = request.model_copy(update={"share": number, "parts": parts, "fingerprint": fingerprint(parts)})
    return Work(store=store, plan=plan, request=shared, because=f"it helps {stage}")


def forget(work: Work) -> None:
    """Delete the result of a share, which nobody reads."""
    with suppress(FileNotFoundError):
        work.store.delete(paths.manifest(work.request.prefix))
