"""Each event is told once, whoever notices it first.

A callback in the worker, the same callback in the DAG processor, and the watch beside the scheduler may all notice one
failure. Whoever creates the event's file in the store tells people; the others find it and are silent.
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


def event(where: Situation, name: str, *what: object) -> str:
    """The identity of an event among those of its run: the stage, what it is, and what tells it from others."""
    digest = hashlib.sha256(json.dumps([str(part) for part in what]).encode()).hexdigest()[:16]
    return f"{where.stage}.{name}.{digest}"


def failure(where: Situation) -> str:
    """A try that was the last. For the run as a whole there is no try."""
    return event(where, FAILURE, where.episode, where.try_number)


def ended(where: Situation) -> str:
    """A try that ended with a word. One that was killed leaves no such mark."""
    return event(where, "ended", where.episode, where.try_number)


def retry(where: Situation, cause: str) -> str:
    """A cause for which a stage is tried again. Figures, or other last words in brackets, make no other cause of it."""
    return event(where, RETRY, where.episode, re.sub(r"\d+", "#", re.sub(r"\s*\([^()]*\)$", "", cause)))


class Claims:
    """What has been told. Without a store that answers, everything counts as new: better twice than never."""

    def __init__(self, store_uri: str | None = None) -> None:
        """store_uri: RATCHET_STORE's by default."""
        self._uri = store_uri

    @cached_property
    def _store(self) -> Store:
        from ratchet.store.opening import open_store
        from ratchet_airflow import settings

        return open_store(self._uri or settings.read().store)

    def take(self, where: Situation, name: str, alert: Alert | None = None) -> bool:
        """Whether nobody took the event before. What is told about it is kept with it."""
        content = json.dumps(asdict(alert)).encode() if alert else b"{}"
        try:
            return self._store.create(paths.alert(where.pipeline, where.stored_run_id, name), content)
        except Exception as error:  # noqa: BLE001 - whatever ails the store, people are told
            _log.warning("alerts: the store cannot say whether %s was told before (%s); it is told now", name, error)
            return True

    def taken(self, where: Situation, name: str) -> bool:
        """Whether somebody took the event. False where the store does not say."""
        try:
            return self._store.head(paths.alert(where.pipeline, where.stored_run_id, name)) is not None
        except Exception as error:  # noqa: BLE001 - as above
            _log.warning("alerts: the store cannot say whether %s was told before (%s)", name, error)
            return False

    def told(self, where: Situation, names: Sequence[str]) -> list[dict[str, str]]:
        """The alerts of these names about the stage, oldest first, whatever the try."""
        found = []
        try:
            for entry in self._store.list(paths.alerts(where.pipeline, where.stored_run_id)):
                stage, _, rest = entry.key.rpartition("/")[2].partition(".")
                if stage == where.stage and rest.partition(".")[0] in names:
                    found.append((entry.modified_ns, json.loads(self._store.read(entry.key))))
        except Exception as error:  # noqa: BLE001 - as above
            _log.warning("alerts: the store cannot say what was told about %s (%s)", where.stage, error)
        return [alert for _, alert in sorted(found, key=lambda pair: pair[0])]
