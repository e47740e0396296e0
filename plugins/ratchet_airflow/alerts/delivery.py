"""Delivery of alerts: a line in the log of alerts, and a message to each address. No log shows an address."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from ratchet.contracts.alerts import Alerts, Occasion
from ratchet.contracts.environment import alert_urls, alert_variable, environment
from ratchet_airflow.alerts.alert import Alert
from ratchet_airflow.alerts.deduplication import AlertHistory
from ratchet_airflow.alerts.situation import Situation

_log = logging.getLogger("ratchet.alerts")
_TALKATIVE = ("apprise", "urllib3", "requests")
"""Loggers that show addresses at debug level."""


def send_once(alert: Alert, where: Situation, key: str, alerts: Alerts, history: AlertHistory) -> bool:
    """Log and send an alert, unless its event is in the history. Whether this call did so.

    Alerts of a backfill's runs are logged only, since one summary at its end reports them all. A stuck run is reported
    at once: its backfill may never end.
    """
    if not history.add(where, key, alert):
        return False
    record(alert)
    if is_wanted(alerts, alert.occasion) and (not where.backfill or alert.occasion == "stuck"):
        for name in alerts.to:
            deliver(alert, name)
    return True


def is_wanted(alerts: Alerts, occasion: Occasion) -> bool:
    """Whether the pipeline's file asks for such alerts. Refused data is a failure too."""
    return occasion in alerts.on or (occasion == "refused" and "failure" in alerts.on)


def record(alert: Alert) -> None:
    """Log the alert, and append it as a JSON line to RATCHET_ALERT_LOG ($AIRFLOW_HOME/alerts.jsonl by default)."""
    _log.warning("ALERT %s: %s", alert.title, alert.cause)
    home = os.environ.get("AIRFLOW_HOME", "~/airflow")
    path = (environment().alert_log or Path(home) / "alerts.jsonl").expanduser()
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"title": alert.title, **asdict(alert)}) + "\n")
    except OSError as error:
        _log.warning("cannot write the alert to %s: %s", path, error)


def deliver(alert: Alert, name: str) -> bool:
    """Send to each address of a name; whether all took it. What fails is logged without the address."""
    urls = addresses(name)
    if not urls:
        _log.warning(
            "alerts.to: %s has no address; set %s, or create the Airflow connection ratchet_alerts_%s",
            name,
            alert_variable(name),
            name,
        )
        return False
    from apprise import Apprise, NotifyType

    kinds = {
        "promoted": NotifyType.SUCCESS,
        "recovered": NotifyType.SUCCESS,
        "approval": NotifyType.INFO,
        "rejected": NotifyType.INFO,
        "backfill": NotifyType.INFO,
        "production": NotifyType.INFO,
        "withheld": NotifyType.WARNING,
        "unmeasured": NotifyType.WARNING,
        "retry": NotifyType.WARNING,
        "late": NotifyType.WARNING,
    }
    with _silent(_TALKATIVE):
        sender = Apprise()
        known = [sender.add(url) for url in urls]
        kind = kinds.get(alert.occasion, NotifyType.FAILURE)
        sent = bool(sender.notify(title=alert.title, body=alert.body, notify_type=kind))
    if not sent or not all(known):
        _log.warning("alerts.to: %s: the alert did not reach every address", name)
    return sent and all(known)


def addresses(name: str) -> list[str]:
    """Apprise URLs, separated by spaces: RATCHET_ALERTS_<NAME>, or the password of Airflow's ratchet_alerts_<name>."""
    given = alert_urls(name)
    return given if given is not None else (_connection(f"ratchet_alerts_{name}") or "").split()


@contextmanager
def _silent(names: tuple[str, ...]) -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _connection(connection_id: str) -> str | None:
    from airflow.sdk import Connection

    try:
        found: str | None = Connection.get(connection_id).password
    except Exception:  # noqa: BLE001 - no such connection, or no server to ask; there is no address either way
        return None
    return found
