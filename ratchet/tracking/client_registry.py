"""The registry through MLflow's client, for every kind of tracking URI. Its import takes seconds."""

from collections.abc import Callable
from typing import Any

from ratchet.tracking.mlflow import Tracker
from ratchet.tracking.registry import CHAMPION, DIGEST, LEDGER, RECORDED, Version

_NOT_THERE = frozenset({"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"})


class ClientRegistry:
    """See Registry. Used inside `track`, which turns MLflow's errors without an answer into Unavailable."""

    def __init__(self, tracker: Tracker) -> None:
        self.address = tracker.address
        self._client = tracker.client

    def champion(self, model: str) -> Version | None:
        """See Registry."""
        return _found(lambda: self._client.get_model_version_by_alias(model, CHAMPION))

    def find(self, model: str, digest: str) -> tuple[Version, ...]:
        """See Registry."""
        return self._search(f"name = '{model}' and tags.`{DIGEST}` = '{digest}'")

    def recorded(self, model: str) -> tuple[Version, ...]:
        """See Registry."""
        return tuple(version for version in self._search(f"name = '{model}' and {RECORDED}") if version.record)

    def version(self, model: str, number: str) -> Version | None:
        """See Registry."""
        return _found(lambda: self._client.get_model_version(model, number))

    def mark(self, model: str, version: Version, record: int) -> None:
        """See Registry."""
        self._client.set_model_version_tag(model, version.number, LEDGER, str(record))

    def point(self, model: str, version: Version, record: int) -> None:
        """See Registry."""
        self.mark(model, version, record)
        self._client.set_registered_model_alias(model, CHAMPION, version.number)

    def _search(self, condition: str) -> tuple[Version, ...]:
        found: list[Any] = []
        page = None
        while page != "":
            answer = self._client.search_model_versions(condition, page_token=page)
            found += answer
            page = answer.token or ""
        return tuple(sorted(map(_version, found), key=lambda version: int(version.number)))


def _found(ask: Callable[[], Any]) -> Version | None:
    from mlflow.exceptions import MlflowException

    try:
        return _version(ask())
    except MlflowException as error:
        if error.error_code not in _NOT_THERE:
            raise
        return None


def _version(found: Any) -> Version:
    return Version(number=str(found.version), tags=dict(found.tags))
