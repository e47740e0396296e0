"""The registry of an MLflow server, by its REST API."""

from typing import Any

from ratchet.contracts.errors import Unavailable
from ratchet.tracking.registry import CHAMPION, DIGEST, LEDGER, RECORDED, Version
from ratchet.tracking.rest import RestClient

_PAGE = 100


class RestRegistry:
    """See Registry."""

    def __init__(self, uri: str) -> None:
        self._client = RestClient(uri)
        self.address = self._client.address

    def champion(self, model: str) -> Version | None:
        """See Registry."""
        found = self._client.ask("GET", "registered-models/alias", {"name": model, "alias": CHAMPION})
        return _version(found["model_version"]) if found else None

    def find(self, model: str, digest: str) -> tuple[Version, ...]:
        """See Registry."""
        return self._search(f"name = '{model}' and tags.`{DIGEST}` = '{digest}'")

    def recorded(self, model: str) -> tuple[Version, ...]:
        """See Registry."""
        return tuple(version for version in self._search(f"name = '{model}' and {RECORDED}") if version.record)

    def version(self, model: str, number: str) -> Version | None:
        """See Registry."""
        found = self._client.ask("GET", "model-versions/get", {"name": model, "version": number})
        return _version(found["model_version"]) if found else None

    def mark(self, model: str, version: Version, record: int) -> None:
        """See Registry."""
        tag = {"name": model, "version": version.number, "key": LEDGER, "value": str(record)}
        if self._client.ask("POST", "model-versions/set-tag", tag) is None:
            raise Unavailable(f"MLflow at {self.address} has lost version {version.number} of {model}")

    def point(self, model: str, version: Version, record: int) -> None:
        """See Registry."""
        self.mark(model, version, record)
        alias = {"name": model, "alias": CHAMPION, "version": version.number}
        self._client.ask("POST", "registered-models/alias", alias)

    def _search(self, condition: str) -> tuple[Version, ...]:
        """All versions that a condition is true of, page by page."""
        found: list[Version] = []
        page = ""
        while True:
            given = {"filter": condition, "max_results": _PAGE, **({"page_token": page} if page else {})}
            answer = self._client.ask("GET", "model-versions/search", given) or {}
            found += map(_version, answer.get("model_versions", ()))
            page = answer.get("next_page_token", "")
            if not page:
                return tuple(sorted(found, key=lambda version: int(version.number)))


def _version(found: dict[str, Any]) -> Version:
    tags = {tag["key"]: tag.get("value", "") for tag in found.get("tags", ())}
    return Version(number=str(found["version"]), tags=tags)
