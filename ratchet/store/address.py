"""The address of a file of the store, for people."""

from ratchet.store.base import Store


def address(store: Store, key: str) -> str:
    """Where a person finds a file of the store: a path, or a URI."""
    path = store.local(key)
    return str(path) if path else f"{store.uri}/{key}"
