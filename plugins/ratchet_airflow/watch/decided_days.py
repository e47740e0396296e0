"""What people decided about days of the data, wherever they did: found in the records of days, and reported once."""

from datetime import UTC, datetime, timedelta

from ratchet.contracts.day_record import DayRecord
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.masking import masked_logger
from ratchet.runs.day_records import decisions
from ratchet.store.base import Store
from ratchet_airflow import folders
from ratchet_airflow.alerts.by_hand import root
from ratchet_airflow.alerts.deduplication import AlertHistory, event_key
from ratchet_airflow.alerts.delivery import send_once
from ratchet_airflow.alerts.message import make_alert
from ratchet_airflow.alerts.situation import Situation

_STAGE = "day"
_RECENT = timedelta(days=7)
"""Older decisions are no news, as where a store was copied, or a release before this one made them."""
_log = masked_logger("ratchet.alerts")
_known: dict[str, set[str]] = {}
"""The records of each pipeline that were read before, so that one without news costs a list of names."""


def scan_decided_days(store: Store, now: datetime | None = None) -> int:
    """Report what people decided about days of every pipeline and was not reported before. The number of alerts."""
    since = (now or datetime.now(UTC)) - _RECENT
    return sum(_scan(store, found, since) for found in folders.read(root())[0])


def _scan(store: Store, found: folders.PipelineFolder, since: datetime) -> int:
    name = found.spec.name
    known = _known.setdefault(f"{store.uri} {name}", set())
    sent = 0
    try:
        for key, record in decisions(store, name, frozenset(known)):
            sent += record.recorded >= since and _report(key, record, found)
            known.add(key)
    except (RatchetError, OSError, ValueError):  # a fault of one pipeline must not hide the others
        _log.exception("cannot look for decisions about days of %s", name)
    return sent


def _report(key: str, record: DayRecord, found: folders.PipelineFolder) -> bool:
    name = found.spec.name
    where = Situation(pipeline=name, run_id=f"days-{name}", stage=_STAGE, date=f"{record.day}")
    let_in = record.action == "admit"
    what = "let in by" if let_in else "kept out by"
    refused = (f"run {record.run_id} refused it",) if record.run_id else ()
    undo = "ratchet data refuse" if let_in else "ratchet data accept"
    alert = make_alert(
        "data",
        where,
        cause=f"{record.day} was {what} {record.by}. Why: {record.reason}",
        remedy=f'nothing, or {undo} {name} {record.day} --by NAME --because "..."',
        details=refused,
    )
    return send_once(alert, where, event_key(where, "data", key), found.spec.alerts, AlertHistory())
