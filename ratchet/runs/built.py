"""The mark that a result was built, which later runs name as the newest one when they say what differs."""

from ratchet.contracts import paths, summaries
from ratchet.contracts.result import StageResult
from ratchet.contracts.stages import TRAININGS
from ratchet.runs.accumulation import remember_chosen
from ratchet.runs.newest import write_mark
from ratchet.runs.work import Work


def mark_built(work: Work, result: StageResult) -> None:
    """Mark a result that was published for some work; again is quiet. Not of a rebuild to compare, nor of a share."""
    plan, request = work.plan, work.request
    if plan.kind == "reproduction" or request.share:
        return
    write_mark(work.store, paths.built(plan.spec.name, request.stage, request.fingerprint))
    if request.stage in TRAININGS:
        remember_chosen(work.store, plan, summaries.trained(result), used=request.accumulation)
