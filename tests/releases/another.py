"""Documents as another release writes them: with a key that it added, or one that its readers must know."""

import json
from typing import Any

from ratchet.contracts.fingerprint import digest_of
from ratchet.store.base import Store
from ratchet.store.sealed import _render

NEEDS = {"needs": {"tides": "9.9"}}
ADDED = {"of_a_newer_release": {"a": [1]}}


def write(store: Store, key: str, more: dict[str, Any]) -> None:
    """Let a document have more keys; sealed as before if it is sealed."""
    entry = store.head(key)
    assert entry is not None
    found = json.loads(store.read(key))
    if set(found) == {"sha256", "document"}:
        plain = {**found["document"], **more}
        data = _render({"sha256": digest_of(plain), "document": plain})
    else:
        data = json.dumps({**found, **more}).encode()
    assert store.replace(key, data, expected=entry.etag)


def content(store: Store, key: str) -> dict[str, Any]:
    """What a document has now."""
    found: dict[str, Any] = json.loads(store.read(key))
    return found.get("document", found)


def state(store: Store, *, but: str = "leases/") -> dict[str, bytes]:
    """Every file of a store, except those below a place."""
    return {entry.key: store.read(entry.key) for entry in store.list("") if not entry.key.startswith(but)}
