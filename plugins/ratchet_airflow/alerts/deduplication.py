"""Each event is reported once, even if several processes notice it.

A callback in the worker, the same callback in the DAG processor, and the watch may all notice one
failure. The process that creates the event's file in the store reports it; the others find the file and do nothing.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

from ratchet.contracts import paths
from ratchet.contracts.masking import masked_logger
from ratchet.outbox.deadline import Deadline
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet_airflow import settings
from ratchet_airflow.alerts.situation import Situation

_log = masked_logger("ratchet.alerts")
FAILURE, RETRY = "failure", "retry"
CALLBACK_S = 20.0
"""Seconds that a callback may take for its alerts. What is not done then is left to the watch."""
T = TypeVar("T")


def event_key(where: Situation, name: str, *parts: object) -> str:
    """The key of an event among those of its run. It has the stage, the event's name, and a digest of the parts."""
    digest = hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:16]
    return f"{where.stage}.{name}.{digest}"


def failure_key(where: Situation) -> str:
    """The failure of a last try, or of the whole run, which has no try."""
    return event_key(where, FAILURE, where.episode, where.try_number)


def end_key(where: Situation) -> str:
    """The end of a try that a callback reported. A try that was killed has no such key."""
    return event_key(where, "ended", where.episode, where.try_number)


def retry_key(where: Situation, cause: str) -> str:
    """A cause for which a stage is retried. Numbers, and brackets at the end, do not make another cause."""
    return event_key(where, RETRY, where.episode, re.sub(r"\d+", "#", re.sub(r"\s*\([^()]*\)$", "", cause)))


class AlertHistory:
    """The events of runs and their alerts, in the store. If the store fails, every event is new: twice beats never."""

    def __init__(self, store_uri: str | None = None, *, seconds: float = CALLBACK_S) -> None:
        """store_uri: RATCHET_STORE's by default. seconds: for all that is asked of it; a task waits no longer."""
        self._uri = store_uri
        self.deadline = Deadline(seconds)

    @property
    def uri(self) -> str:
        """The store's. Raises ConfigurationError if none is set."""
        return self._uri or settings.read().store

    @cached_property
    def store(self) -> Store:
        """The store."""
        return open_store(self.uri)

    def add(self, where: Situation, key: str) -> bool:
        """Store an event without an alert. Whether it is new; False if some process has stored it before."""
        return self._ask(lambda: self.store.create(event_of(where, key), b"{}"), otherwise=True)

    def has(self, where: Situation, key: str) -> bool:
        """Whether some process has stored an event."""
        return self._ask(lambda: self.store.head(event_of(where, key)) is not None, otherwise=False)

    def alerts(self, where: Situation, names: Sequence[str]) -> list[dict[str, str]]:
        """The alerts about a stage under these event names, of all its tries, oldest first."""
        return self._ask(lambda: self._alerts(where, names), otherwise=[])

    def _alerts(self, where: Situation, names: Sequence[str]) -> list[dict[str, str]]:
        found = []
        for entry in self.store.list(paths.alerts(where.pipeline, where.stored_run_id)):
            stage, _, rest = paths.last(entry.key).partition(".")
            if stage == where.stage and rest.partition(".")[0] in names:
                found.append((entry.modified_ns, json.loads(self.store.read(entry.key))))
        return [alert for _, alert in sorted(found, key=lambda pair: pair[0])]

    def _ask(self, do: Callable[[], T], *, otherwise: T) -> T:
        try:
            return self.deadline.call(do)
        except Exception as error:  # noqa: BLE001 - an alert is sent whatever fails in the store
            _log.warning("alerts: cannot ask the store (%s)", error)
            return otherwise


def event_of(where: Situation, key: str) -> str:
    """The key in the store of an event."""
    return paths.alert(where.pipeline, where.stored_run_id, key)
