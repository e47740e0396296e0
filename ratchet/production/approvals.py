"""Who said yes to what a run may promote. The orchestrator writes it before register reads it."""

from ratchet.contracts import paths
from ratchet.contracts.authority import Approval, Approvals
from ratchet.store.base import Store


def approvals_of(store: Store, pipeline: str, run_id: str) -> tuple[Approval, ...]:
    """The approvals of a run, in their order."""
    return _read(store, pipeline, run_id).approvals


def add_approval(store: Store, pipeline: str, run_id: str, approval: Approval) -> tuple[Approval, ...]:
    """Add a person's yes; a person who said it before counts once. All approvals of the run."""
    key = paths.approvals(pipeline, run_id)
    while True:
        entry = store.head(key)
        given = _read(store, pipeline, run_id).approvals
        if any(one.name == approval.name for one in given):
            return given
        whole = Approvals(approvals=(*given, approval))
        if store.replace(key, whole.model_dump_json(indent=1).encode(), expected=entry.etag if entry else None):
            return whole.approvals


def _read(store: Store, pipeline: str, run_id: str) -> Approvals:
    try:
        return Approvals.model_validate_json(store.read(paths.approvals(pipeline, run_id)))
    except FileNotFoundError:
        return Approvals()
