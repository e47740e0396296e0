"""Alerts about changes of production that a person made, in Airflow or at a command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ratchet.contracts.alerts import Alerts
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.masking import masked_logger
from ratchet.store.ledger import Record
from ratchet_airflow import folders
from ratchet_airflow.alerts.deduplication import AlertHistory, event_key
from ratchet_airflow.alerts.delivery import send_once
from ratchet_airflow.alerts.message import make_alert
from ratchet_airflow.alerts.situation import Situation
from ratchet_airflow.public_links import public

_log = masked_logger("ratchet.alerts")
_STAGE = "production"


def callbacks() -> dict[str, Any]:
    """Of the tasks that change production."""
    return {"on_success_callback": on_change}


def on_change(context: Mapping[str, Any]) -> None:
    """Report the change that a task made. No alert, sent or not, changes how the task ends."""
    record = getattr(getattr(context.get("ti"), "task", None), "record", None)
    if record is None:
        return
    try:
        report(record, _alerts(record.pipeline), link=public(str(getattr(context.get("ti"), "log_url", ""))))
    except (RatchetError, OSError):
        _log.exception("cannot make the alert about production of %s", record.model)


def report(record: Record, alerts: Alerts, *, link: str = "") -> bool:
    """Send the alert about a record once, whoever notices it. Whether this call did so."""
    where = Situation(
        pipeline=record.pipeline,
        run_id=f"production-{record.model}",
        stage=_STAGE,
        date=str(record.data_date),
        link=link,
    )
    what = f"{record.action} of {record.model} by {record.started_by}"
    if record.moves_production:
        what += f"; version {record.version} is in production now"
    banned = [f"version {ban.version} is banned until it is released" for ban in record.bans]
    alert = make_alert(
        "production", where, cause=f"{what}. Why: {record.reason}", remedy="nothing", details=tuple(banned)
    )
    return send_once(alert, where, event_key(where, "production", record.model, record.number), alerts, AlertHistory())


def _alerts(pipeline: str) -> Alerts:
    """Who is to be alerted, by the pipeline's file; nobody but the log, if there is none."""
    try:
        found = folders.read_one(root(), pipeline)
    except RatchetError:
        return Alerts()
    return found[0].spec.alerts if found else Alerts()


def root() -> Path:
    """The folder of the pipelines."""
    from airflow.configuration import conf

    return folders.root(str(Path(conf.get("core", "dags_folder")) / "ratchet_production.py"))
