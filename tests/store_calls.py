"""Counts the calls that a stage makes to a store that is a folder."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ratchet.store.file import FileStore

_CALLS = ("read", "create", "replace", "upload", "download", "list", "head", "delete")


@contextmanager
def counted_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The calls to a store, without those that it makes of itself."""
    calls: list[str] = []
    inside = threading.local()

    def count(name: str) -> None:
        real = getattr(FileStore, name)

        def call(*given: object, **named: object) -> object:
            outer = not getattr(inside, "call", False)
            if not outer:
                return real(*given, **named)
            calls.append(name)
            inside.call = True
            try:
                found = real(*given, **named)
                return iter(list(found)) if name == "list" else found
            finally:
                inside.call = False

        monkeypatch.setattr(FileStore, name, call)

    for name in _CALLS:
        count(name)
    yield calls
    monkeypatch.undo()
