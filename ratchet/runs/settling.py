"""A run that has failed for good, while a stage of it waited to be tried again: nobody tries it."""

from ratchet.contracts import paths
from ratchet.contracts.request import RunPlan
from ratchet.runs.outcomes import outcome_of_stage
from ratchet.runs.run_index import note_end
from ratchet.store.base import Store
from ratchet.store.documents import replace_document


def settle(store: Store, plan: RunPlan) -> bool:
    """Say so of its stages, for an orchestrator that has given the run up. Whether there was such a stage."""
    changed = False
    for stage in plan.spec.sequence:
        key = paths.outcome(plan.spec.name, plan.run_id, stage)
        entry = store.head(key)
        found = outcome_of_stage(store, plan.spec.name, plan.run_id, stage) if entry is not None else None
        if entry is not None and found is not None and found.state == "failed" and found.again:
            settled = found.model_copy(update={"again": False})
            changed |= replace_document(store, key, settled, expected=entry.etag)
    if changed:
        note_end(store, plan)
    return changed
