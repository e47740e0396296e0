"""Each event is reported once, even if several processes notice it.

A callback in the worker, the same callback in the DAG processor, and the watch beside the scheduler may all notice one
failure. The process that creates the event's file in the store reports it; the others find the file and do nothing.
"""

import hashlib
import json
import logging
import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property

from ratchet.contracts import paths
from ratchet.store.base import Store
from ratchet_airflow.alerts.alert import Alert
from ratchet_airflow.alerts.situation import Situation

_log = logging.getLogger("ratchet.alerts")
FAILURE, RETRY = "failure", "retry"


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

    def __init__(self, store_uri: str | None = None) -> None:
        """store_uri: RATCHET_STORE's by default."""
        self._uri = store_uri

    @cached_property
    def _store(self) -> Store:
        from ratchet.store.opening import open_store
        from ratchet_airflow import settings

        return open_store(self._uri or settings.read().store)

    def add(self, where: Situation, key: str, alert: Alert | None = None) -> bool:
        """Store an event and its alert. Whether it is new; False if some process has stored it before."""
        content = json.dumps(asdict(alert)).encode() if alert else b"{}"
        try:
            return self._store.create(paths.alert(where.pipeline, where.stored_run_id, key), content)
        except Exception as error:  # noqa: BLE001 - an alert is sent whatever fails in the store
            _log.warning("alerts: cannot ask the store whether %s was sent (%s); sending it", key, error)
            return True

    def alerts(self, where: Situation, names: Sequence[str]) -> list[dict[str, str]]:
        """The alerts about a stage under these event names, of all its tries, oldest first."""
        found = []
        try:
            for entry in self._store.list(paths.alerts(where.pipeline, where.stored_run_id)):
                stage, _, rest = entry.key.rpartition("/")[2].partition(".")
                if stage == where.stage and rest.partition(".")[0] in names:
                    found.append((entry.modified_ns, json.loads(self._store.read(entry.key))))
        except Exception as error:  # noqa: BLE001 - as in `add`
            _log.warning("alerts: cannot list the alerts about %s in the store (%s)", where.stage, error)
        return [alert for _, alert in sorted(found, key=lambda pair: pair[0])]
