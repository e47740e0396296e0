"""The model that a run is measured against, and whether the run may move production.

A change here violates the promise of the project when: a run that may move production is measured against anything
but the live champion; a past date moves production without being asked to; or a rerun of a date compares its own
model with itself and calls that a result.
"""

from datetime import UTC, date
from typing import Literal

from ratchet.contracts.champion import Champion
from ratchet.contracts.request import Promotion, RunKind
from ratchet.production.standing import Standing, held, standing
from ratchet.store.base import Store
from ratchet.store.ledger import Record, champion, champion_of, records

Mode = Literal["auto", "approve", "never"]


def promotion(
    store: Store, model: str, *, data_date: date, kind: RunKind, configured: Mode, asked: Mode | None
) -> Promotion:
    """Whether a run may move production. configured: by the pipeline. asked: by the person who started the run."""
    if asked is not None:
        reason = "asked for when the run was started" if asked == "never" else ""
        return Promotion(mode=asked, reason=reason)  # a hold is looked for again when it would be recorded
    if kind == "backfill":
        return Promotion(mode="never", reason="a backfill does not move production unless asked to")
    if configured == "never":
        return Promotion(mode="never", reason="register.promote is never")
    reason = _held_back(standing(store, model), data_date)
    if not reason and configured == "approve" and kind == "local":
        reason = "register.promote is approve, and a local run cannot ask; start it in Airflow"
    return Promotion(mode="never", reason=reason) if reason else Promotion(mode=configured)


def _held_back(now: Standing, data_date: date) -> str:
    """Why the ledger lets a run of this date move nothing, unless it is asked to; empty if it may."""
    if now.hold is not None:
        return held(now.hold)
    newest = max((record.data_date for record in now.history if record.moves_production), default=data_date)
    if data_date < newest:  # also after a rollback: a past date stays one
        return f"production has had data up to {newest}; older runs do not move it unless asked"
    return ""


def drift_reference(store: Store, model: str, data_date: date) -> Champion | None:
    """The champion as of a data date: who was in office on it."""
    record = champion(store, model, before=data_date)
    return as_champion(record) if record else None


def baseline(store: Store, model: str, *, data_date: date, candidate: str, may_promote: bool) -> Champion | None:
    """The model that a candidate (its digest) has to beat, or None where there is none yet.

    A run that may move production meets the live champion. If an earlier try of the same run made the candidate, or a
    refit of it, champion, it meets the model that it beat then. A run that may not move production meets who was in
    office on its data date.
    """
    if not may_promote:
        return drift_reference(store, model, data_date)
    history = {record.number: record for record in records(store, model)}
    live = champion_of(tuple(history.values()))
    while live is not None and live.measured == candidate:
        live = history.get(live.baseline) if live.baseline else None
    return as_champion(live) if live else None


def as_champion(record: Record) -> Champion:
    """A ledger record as stages see it."""
    return Champion(
        model=record.model,
        number=record.number,
        version=record.version,
        digest=record.model_digest,
        data_date=record.data_date,
        manifests=record.manifests,
        chosen=record.recorded.astimezone(UTC).date() if record.by_hand else None,
        pipeline=record.pipeline,
    )
