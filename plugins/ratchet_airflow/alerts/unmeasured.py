"""The alert about a champion that could not be measured for so many nights that only a person can end it."""

from ratchet.contracts.alerts import Alerts
from ratchet.contracts.registration import Registration
from ratchet.contracts.summaries import Judgement
from ratchet_airflow.alerts.deduplication import AlertHistory, event_key
from ratchet_airflow.alerts.delivery import send_once
from ratchet_airflow.alerts.message import make_alert
from ratchet_airflow.alerts.situation import Situation

REASON = "champion-unmeasurable"
"""Of such a verdict; after how many nights, `gate.unmeasurable_after` of the pipeline says."""


def report(judged: Judgement, where: Situation, alerts: Alerts) -> bool:
    """Send it with the command that ends it, if the verdict is such a one. Whether this call did so."""
    if judged.reason != REASON:
        return False
    remedy = f"{judged.command}; or trigger the DAG ratchet_rollback or ratchet_promote"
    return _send(judged.explanation, remedy, where, alerts)


def report_offer(made: Registration, where: Situation, alerts: Alerts) -> bool:
    """Send it with the command that promotes the version which register made for that, if it did."""
    if not made.command:
        return False
    cause = f"no night can measure production of {made.model}; version {made.version} is registered in its place"
    remedy = f"{made.command}; or trigger the DAG ratchet_promote with version {made.version}"
    return _send(cause, remedy, where, alerts)


def _send(cause: str, remedy: str, where: Situation, alerts: Alerts) -> bool:
    alert = make_alert("unmeasured", where, cause=cause, remedy=remedy)
    return send_once(alert, where, event_key(where, "unmeasured", where.episode), alerts, AlertHistory())
