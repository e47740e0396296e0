"""Delivery of alerts: a line in the log of alerts, and a message to each address. No log shows an address."""

import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from ratchet.contracts.alerts import Alerts, Occasion
from ratchet.contracts.environment import alert_urls, alert_variable, environment
from ratchet.contracts.errors import RatchetError, Unavailable
from ratchet.contracts.masking import masked_logger
from ratchet.outbox.causes import STORE
from ratchet.outbox.deadline import Deadline
from ratchet.outbox.incidents import join
from ratchet.outbox.letter import LIMIT, TAKEN, Letter
from ratchet.outbox.outbox import Clock, Outbox, utc
from ratchet.outbox.spool import Spool
from ratchet.store.base import Store
from ratchet_airflow.alerts.alert import Alert, plain
from ratchet_airflow.alerts.deduplication import CALLBACK_S, AlertHistory, event_of
from ratchet_airflow.alerts.situation import Situation
from ratchet_airflow.run_id import installation

_log = masked_logger("ratchet.alerts")
_KINDS: Mapping[str, Literal["info", "success", "warning"]] = {
    "promoted": "success",
    "recovered": "success",
    "approval": "info",
    "rejected": "info",
    "backfill": "info",
    "production": "info",
    "withheld": "warning",
    "unmeasured": "warning",
    "retry": "warning",
    "late": "warning",
    "paused": "warning",
}
"""How Apprise shows an alert; a failure unless said otherwise."""
_LONGEST_LOG = 20 << 20
"""Bytes of the log of alerts, after which a new file is begun; the one before stays."""
_TALKATIVE = ("apprise", "urllib3", "requests")
"""Loggers that show addresses at debug level."""


def send_once(alert: Alert, where: Situation, key: str, alerts: Alerts, history: AlertHistory) -> bool:
    """Log and send an alert, unless its event is in the store. Whether this call did so.

    Alerts of a backfill's runs are logged only, since one summary at its end reports them all. A stuck run is reported
    at once: its backfill may never end. What cannot be sent now is sent by the watch; what the store does not take
    is kept on this host until it does.
    """
    event, content = event_of(where, key), json.dumps(asdict(alert)).encode()
    sends = is_wanted(alerts, alert.occasion) and (not where.backfill or alert.occasion == "stuck")
    letters = [_letter(alert, event, name) for name in alerts.to] if sends else []
    posted: list[Letter] = []

    def post() -> bool:
        outbox = outbox_of(history.store)
        posted.extend(join(outbox, letter) for letter in letters if history.store.head(event) is None)
        return outbox.post(event, content, posted)

    try:
        is_new = history.deadline.call(post)
    except Exception as error:  # noqa: BLE001 - an alert is kept whatever fails in the store
        _log.warning("alerts: cannot ask the store whether %s was sent (%s); it is kept on this host", key, error)
        return _keep(alert, event, content, letters)
    if is_new:
        record(alert)
    _deliver(history, [letter for letter in posted if not letter.held])  # whoever claimed the event meanwhile
    return is_new


def post_message(letter: Letter, content: bytes, history: AlertHistory) -> bool:
    """Post, log and send a message of no run, unless its event is in the store. Whether this call did so."""
    is_new = history.deadline.call(lambda: outbox_of(history.store).post(letter.event, content, [letter]))
    if is_new:
        _append({"title": letter.title, **letter.model_dump(mode="json")})
        _deliver(history, [letter])
    return is_new


def _deliver(history: AlertHistory, letters: list[Letter]) -> None:
    """Send what is posted, as long as there is time."""
    outbox = outbox_of(history.store)
    for letter in letters:
        try:
            if history.deadline.call(partial(outbox.holds, letter)):
                history.deadline.call(partial(outbox.deliver, letter))
        except (RatchetError, OSError) as error:
            _log.warning("alerts: %s is left to the watch: %s", letter.title, error)


def _keep(alert: Alert, event: str, content: bytes, letters: list[Letter]) -> bool:
    """Keep an alert that the store does not take. If the disk does not either, it is sent, perhaps not for once."""
    away = [letter.model_copy(update={"cause": STORE}) if letter.cause else letter for letter in letters]
    try:
        is_new = spool().keep(event, content, away)
    except (OSError, ValueError) as error:
        _log.warning("alerts: cannot keep an alert in %s (%s); sending it", spool().folder, error)
        record(alert)
        for letter in letters:
            for address in known_addresses(letter.receiver):
                try:
                    Deadline(CALLBACK_S).call(partial(send, letter, address))
                except RatchetError as error:  # the others are asked although this one hangs
                    _log.warning("alerts.to: %s: an address did not take the alert: %s", letter.receiver, error)
        return True
    if is_new:
        record(alert)
    return is_new


def post_what_waits(history: AlertHistory) -> None:
    """Post what this host has kept, if it has kept anything. What the store still does not take stays."""
    waits = spool()
    if waits.files():
        try:
            history.deadline.call(lambda: waits.drain(outbox_of(history.store)))
        except (RatchetError, OSError) as error:
            _log.warning("alerts: what waits in %s stays there: %s", waits.folder, error)


def outbox_of(store: Store, now: Clock = utc) -> Outbox:
    """The outbox of this installation in a store."""
    return Outbox(store=store, installation=installation(), addresses=addresses, send=send, given_up=_given_up, now=now)


def spool() -> Spool:
    """Where this host keeps alerts while the store is away: beside the log of alerts."""
    return Spool(log_file().with_name("alerts-waiting"))


def _letter(alert: Alert, event: str, receiver: str) -> Letter:
    now = utc()
    return Letter(
        event=event,
        receiver=receiver,
        pipeline=alert.pipeline,
        occasion=alert.occasion,
        title=alert.title,
        body=alert.body,
        kind=_KINDS.get(alert.occasion, "failure"),
        cause=alert.shared_cause,
        until=datetime.fromisoformat(alert.waits_until) if alert.waits_until else None,
        reason=alert.cause,
        made=now,
        due=now + TAKEN,
    )


def _given_up(letter: Letter) -> None:
    """Say where people look that a letter reached nobody: here, and on the page of the pipeline's nights."""
    _log.error("alerts: given up after %s, %s never took it: %s", LIMIT, letter.receiver, letter.title)
    _append({"title": f"NOT DELIVERED to {letter.receiver}: {letter.title}", **letter.model_dump(mode="json")})


def is_wanted(alerts: Alerts, occasion: Occasion) -> bool:
    """Whether the pipeline's file asks for such alerts. Refused data is a failure too."""
    return occasion in alerts.on or (occasion == "refused" and "failure" in alerts.on)


def record(alert: Alert) -> None:
    """Log the alert, and append it as a JSON line to the log of alerts."""
    _log.warning("ALERT %s: %s", plain(alert.title), plain(alert.cause))
    _append({"title": alert.title, **asdict(alert)})


def log_file() -> Path:
    """RATCHET_ALERT_LOG, or $AIRFLOW_HOME/alerts.jsonl."""
    home = os.environ.get("AIRFLOW_HOME", "~/airflow")
    return (environment().alert_log or Path(home) / "alerts.jsonl").expanduser()


def _append(line: dict[str, Any]) -> None:
    path = log_file()
    try:
        with suppress(FileNotFoundError):
            if path.stat().st_size >= _LONGEST_LOG:
                path.replace(path.with_name(f"{path.name}.1"))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    except OSError as error:
        _log.warning("cannot write the alert to %s: %s", path, error)


def send(letter: Letter, address: str) -> bool:
    """Send a letter to one Apprise URL; whether it was taken. What fails is logged without the address."""
    from apprise import Apprise, OverflowMode

    with _silence:
        sender = Apprise()
        added = sender.add(address)
        for server in sender:  # a long body in parts, unless the address says otherwise
            if server.overflow_mode == OverflowMode.UPSTREAM:
                server.overflow_mode = OverflowMode.SPLIT
        taken = added and sender.notify(title=letter.title, body=letter.body, notify_type=letter.kind)
    if not taken:
        _log.warning("alerts.to: %s: the alert did not reach every address; it is tried again", letter.receiver)
    return bool(taken)


def addresses(name: str) -> list[str] | None:
    """Apprise URLs, separated by spaces: RATCHET_ALERTS_<NAME>, or the password of Airflow's ratchet_alerts_<name>.

    An empty list if the variable is empty: nobody is to be sent anything. None if neither is there. Raises Unavailable
    while Airflow's server, which alone knows the connection, cannot be asked.
    """
    given = alert_urls(name)
    if given is None and (found := connection(name)):
        given = found.split()
    if not given:
        variable, connection_id = alert_variable(name), f"ratchet_alerts_{name}"
        _log.warning(
            "alerts.to: %s has no address; set %s, or create the Airflow connection %s", name, variable, connection_id
        )
    return given


def known_addresses(name: str) -> list[str]:
    """The same, for what cannot wait: none if there are none, or if nobody can be asked."""
    try:
        return addresses(name) or []
    except Unavailable as error:
        _log.warning("alerts.to: %s: nobody can be asked where to send it: %s", name, error)
        return []


class _Silence:
    """Loggers that are silent while at least one thread is in its block; then they are as they were."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._loggers = [logging.getLogger(name) for name in names]
        self._before: list[int] = []
        self._inside = 0
        self._lock = Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = [logger.level for logger in self._loggers]
                for logger in self._loggers:
                    logger.setLevel(logging.CRITICAL + 1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for logger, level in zip(self._loggers, self._before, strict=True):
                    logger.setLevel(level)


_silence = _Silence(_TALKATIVE)


_asks: list[Callable[[str], str | None]] = []


def ask_airflow(receiver: Callable[[str], str | None]) -> None:
    """For a process that is no part of Airflow: ask this for the addresses of a receiver that has a connection.

    receiver: may raise Unavailable.
    """
    _asks[:] = [receiver]


def connection(name: str) -> str | None:
    """The addresses of a receiver that Airflow's connections have."""
    if _asks:
        return _asks[0](name)
    from airflow.sdk import Connection

    try:
        found: str | None = Connection.get(f"ratchet_alerts_{name}").password
    except Exception:  # noqa: BLE001 - no such connection, or no server to ask; there is no address either way
        return None
    return found
