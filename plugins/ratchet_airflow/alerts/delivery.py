"""Alerts on their way: a line in the log of alerts, and a message to each address. Addresses are never shown."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from ratchet.contracts.environment import alert_urls, alert_variable, environment
from ratchet_airflow.alerts.alert import Alert

_log = logging.getLogger("ratchet.alerts")
_TALKATIVE = ("apprise", "urllib3", "requests")
"""Loggers that show addresses when asked for details."""


def record(alert: Alert) -> None:
    """Log the alert, and append it as a JSON line to RATCHET_ALERT_LOG ($AIRFLOW_HOME/alerts.jsonl by default)."""
    _log.warning("ALERT %s: %s", alert.title, alert.cause)
    home = os.environ.get("AIRFLOW_HOME", "~/airflow")
    path = (environment().alert_log or Path(home) / "alerts.jsonl").expanduser()
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"title": alert.title, **asdict(alert)}) + "\n")
    except OSError as error:
        _log.warning("the alert could not be written to %s: %s", path, error)


def deliver(alert: Alert, name: str) -> bool:
    """Send to the addresses that a name stands for. Says in the log what was not delivered, without the address."""
    urls = addresses(name)
    if not urls:
        _log.warning(
            "alerts.to: %s has no address; set %s, or make the Airflow connection ratchet_alerts_%s",
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
        "retry": NotifyType.WARNING,
        "late": NotifyType.WARNING,
    }
    with _silent(_TALKATIVE):
        sender = Apprise()
        known = [sender.add(url) for url in urls]
        kind = kinds.get(alert.occasion, NotifyType.FAILURE)
        sent = bool(sender.notify(title=alert.title, body=alert.body, notify_type=kind))
    if not sent or not all(known):
        _log.warning("alerts.to: %s: not every address took the alert", name)
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
    except Exception:  # noqa: BLE001 - not there, or nobody to ask; either way there is no address
        return None
    return found
