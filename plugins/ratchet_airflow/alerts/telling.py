"""From an event to the people who asked to hear of it."""

from ratchet.contracts.alerts import Alerts, Occasion
from ratchet_airflow.alerts.alert import Alert
from ratchet_airflow.alerts.claims import Claims
from ratchet_airflow.alerts.delivery import deliver, record
from ratchet_airflow.alerts.situation import Situation


def tell(alert: Alert, where: Situation, event: str, alerts: Alerts, claims: Claims) -> bool:
    """Record and send an alert, unless somebody did. Whether this call was the one that did.

    Of a backfill, people hear when it has ended, and of all its runs at once; until then its alerts are only recorded,
    but for a run that stands still: such a backfill may never end.
    """
    if not claims.take(where, event, alert):
        return False
    record(alert)
    if asked_for(alerts, alert.occasion) and (not where.backfill or alert.occasion == "stuck"):
        for name in alerts.to:
            deliver(alert, name)
    return True


def asked_for(alerts: Alerts, occasion: Occasion) -> bool:
    """Whether the pipeline's file asks for it. Refused data is a failure too."""
    return occasion in alerts.on or (occasion == "refused" and "failure" in alerts.on)
