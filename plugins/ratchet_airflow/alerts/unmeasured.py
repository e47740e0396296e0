"""The alert about a champion that could not be measured for so many nights that only a person can end it."""

from ratchet.contracts.alerts import Alerts
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
    alert = make_alert("unmeasured", where, cause=judged.explanation, remedy=remedy)
    return send_once(alert, where, event_key(where, "unmeasured", where.episode), alerts, AlertHistory())
