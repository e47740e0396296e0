"""Who hears of what: alerts through Apprise and a log. No alert, sent or not, ever changes how a task ends."""

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ratchet_airflow.data_date import data_date
from tasks.contracts.documents import registration
from tasks.contracts.errors import Preempted, RatchetError
from tasks.contracts.operations import Alerts

Occasion = Literal["failure", "retry", "rejected", "promoted"]
Context = Mapping[str, Any]

_HEADLINES: dict[Occasion, str] = {
    "failure": "failed",
    "retry": "failed and will be tried again",
    "rejected": "did not replace production",
    "promoted": "is in production",
}
_log = logging.getLogger("ratchet.alerts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """What happened, to what, and what to do about it. date: the data date, or empty where it could not be told."""

    occasion: Occasion
    pipeline: str
    stage: str
    date: str
    attempt: str
    cause: str
    remedy: str
    link: str
    run_id: str

    @property
    def title(self) -> str:
        """One line."""
        return f"{self.pipeline} {self.date}: {self.stage} {_HEADLINES[self.occasion]}"

    @property
    def body(self) -> str:
        """Everything, a line each."""
        lines = [
            ("Pipeline", self.pipeline),
            ("Stage", self.stage),
            ("Date", self.date),
            ("Try", self.attempt),
            ("Cause", self.cause),
            ("What to do", self.remedy),
            ("Link", self.link),
        ]
        return "\n".join(f"{name}: {value}" for name, value in lines if value)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCallbacks:
    """The callbacks of a pipeline's tasks, by what its file says about alerts."""

    pipeline: str
    timezone: str
    alerts: Alerts

    def failure(self, context: Context) -> None:
        """For on_failure_callback."""
        self._raise_alert("failure", context)

    def retry(self, context: Context) -> None:
        """For on_retry_callback. A stage that was preempted saved its work and goes on: nothing failed."""
        if not isinstance(context.get("exception"), Preempted):
            self._raise_alert("retry", context)

    def skipped(self, context: Context) -> None:
        """For on_skipped_callback of register: the candidate was judged, and did not go in."""
        self._raise_alert("rejected", context, cause=getattr(_task(context), "why_skipped", None))

    def run_timed_out(self, context: Context) -> None:
        """For the DAG's on_failure_callback: what no task can say, because it was cut off with the whole run."""
        if context.get("reason") == "timed_out":
            self._raise_alert("failure", {**context, "exception": TimeoutError("the run took longer than it may")})

    def registered(self, context: Context) -> None:
        """For on_success_callback of register: a version was made, and production moved or did not."""
        result = getattr(_task(context), "result", None)
        if result is not None and (made := registration(result)).promoted:
            self._raise_alert("promoted", context, cause=f"{made.model} version {made.version}")

    def _raise_alert(self, occasion: Occasion, context: Context, cause: str | None = None) -> None:
        try:
            alert = describe(occasion, context, pipeline=self.pipeline, timezone=self.timezone, cause=cause)
            record(alert)
            if occasion in self.alerts.on:
                for name in self.alerts.to:
                    deliver(alert, name)
        except Exception:  # noqa: BLE001 - an alert that cannot be made must not fail a task, whatever the reason
            _log.exception("the alert about %s could not be made", self.pipeline)


def describe(occasion: Occasion, context: Context, *, pipeline: str, timezone: str, cause: str | None = None) -> Alert:
    """An alert from what a callback is given. Nothing of the context is required."""
    error = context.get("exception")
    task = context.get("ti")
    if cause is None:
        cause = error.cause if isinstance(error, RatchetError) else f"{error or 'Airflow did not say'}"
    if occasion == "retry":
        remedy = "nothing yet; the next try starts by itself"
    elif occasion in {"rejected", "promoted"}:
        remedy = "see the report of the run"
    else:
        remedy = error.remedy if isinstance(error, RatchetError) else "read the log of the task behind the link"
    try_number, tries = getattr(task, "try_number", None), getattr(task, "max_tries", None)
    return Alert(
        occasion=occasion,
        pipeline=pipeline,
        stage=str(getattr(task, "task_id", "run")),
        date=_date(context, timezone),
        attempt=f"{try_number} of {tries + 1}" if try_number is not None and tries is not None else "",
        cause=cause,
        remedy=remedy,
        link=str(getattr(task, "log_url", "")),
        run_id=str(context.get("run_id", "")),
    )


def record(alert: Alert) -> None:
    """Log the alert, and append it as a JSON line to RATCHET_ALERT_LOG ($AIRFLOW_HOME/alerts.jsonl by default)."""
    _log.warning("ALERT %s: %s", alert.title, alert.cause)
    home = os.environ.get("AIRFLOW_HOME", "~/airflow")
    path = Path(os.environ.get("RATCHET_ALERT_LOG") or Path(home) / "alerts.jsonl").expanduser()
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
            "alerts.to: %s has no address; set RATCHET_ALERTS_%s, or make the Airflow connection ratchet_alerts_%s",
            name,
            _variable(name),
            name,
        )
        return False
    from apprise import Apprise, NotifyType  # noqa: PLC0415 - takes a while, and few tasks send anything

    kinds = {"promoted": NotifyType.SUCCESS, "rejected": NotifyType.INFO, "retry": NotifyType.WARNING}
    sender = Apprise()
    known = [sender.add(url) for url in urls]
    kind = kinds.get(alert.occasion, NotifyType.FAILURE)
    sent = bool(sender.notify(title=alert.title, body=alert.body, notify_type=kind))
    if not sent or not all(known):
        _log.warning("alerts.to: %s: not every address took the alert", name)
    return sent and all(known)


def addresses(name: str) -> list[str]:
    """Apprise URLs, separated by spaces: RATCHET_ALERTS_<NAME>, or the password of Airflow's ratchet_alerts_<name>."""
    given = os.environ.get(f"RATCHET_ALERTS_{_variable(name)}")
    return _split(given if given is not None else _connection(f"ratchet_alerts_{name}"))


def _task(context: Context) -> object:
    """The operator. What it learned in `execute` is still on it when its callbacks are called."""
    return getattr(context.get("ti"), "task", None)


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")


def _split(text: str | None) -> list[str]:
    return (text or "").split()


def _connection(connection_id: str) -> str | None:
    from airflow.sdk import Connection  # noqa: PLC0415 - only where the environment does not say

    try:
        found: str | None = Connection.get(connection_id).password
    except Exception:  # noqa: BLE001 - not there, or nobody to ask; either way there is no address
        return None
    return found


def _date(context: Context, timezone: str) -> str:
    try:
        return data_date(context, timezone).isoformat()
    except (RatchetError, KeyError, AttributeError, TypeError):
        return ""
