"""A stage does not start while rows of its pipeline are being removed, nor with rows that were removed since.

A change here violates the promise of the project when a stage that has read rows before a purge can publish something
of them after it. The order is: a purge writes its record, and then looks for leases; a job has its lease, and then
looks for records. So one of the two sees the other. A container whose worker has died has no lease that counts: it
looks again before it publishes.
"""

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import DataRejected, NoAnswer, Unavailable
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.request import StageRequest
from ratchet.store.base import Store
from ratchet.store.publishing import read_manifest
from ratchet.store.removals import removals, successors


def refuse_removed_rows(store: Store, request: StageRequest) -> str:
    """A digest of the records of removals so far, if a stage may start.

    Raises NoAnswer while a removal is under way, which may take hours, and DataRejected for a run whose rows were
    removed.
    """
    now = _now(store, request)
    found = removals(store, request.spec.name)
    if begun := next((one for one in found if one.ended is None), None):
        verb = "purge" if begun.kind == "purge" else "expiry"
        raise NoAnswer(
            f"a {verb} of rows of {request.spec.name} has begun and not ended ({begun.line})",
            remedy="wait for it; if it was interrupted, run the same command again"
            + (f", or ratchet data purge {request.spec.name} --resume {begun.number}" if verb == "purge" else ""),
        )
    if not found or request.stage == "report":
        return now
    known = successors(found)
    if "ingest" in request.inputs:
        snapshot = summaries.snapshot(read_manifest(store, request.inputs["ingest"].manifest).result)
        gone = next((day for day in snapshot.days if day.file.sha256 in known), None)
        if gone is not None:
            raise _error(request, f"rows of {gone.day}", known[gone.file.sha256][1].line)
    elif "features" in request.inputs and not read_manifest(store, request.inputs["features"].manifest).result.outputs:
        raise _error(request, "rows", next(one.line for one in reversed(found) if one.kind == "purge"))
    return now


def refuse_later_removal(store: Store, request: StageRequest, before: str) -> None:
    """Raise Unavailable if a removal has begun since the stage did. before: what `refuse_removed_rows` gave it."""
    if _now(store, request) != before:
        raise Unavailable(
            f"rows of {request.spec.name} were removed while {request.stage} ran",
            remedy="run again if no retry follows",
        )


def _now(store: Store, request: StageRequest) -> str:
    """Changes with each removal, and also if one that has ended is done again."""
    return digest_of([[entry.key, entry.etag] for entry in store.list(paths.removals(request.spec.name))])


def _error(request: StageRequest, what: str, line: str) -> DataRejected:
    return DataRejected(f"run {request.run_id} has read {what} that were {line}", remedy="start a new run of this date")
