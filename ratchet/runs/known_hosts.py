"""The hosts of an installation: the reaper beside each engine marks in the store that it is there.

A change here violates the promise of the project when a host that lives counts as gone, or is forgotten after a night.
"""

import json
from contextlib import suppress
from typing import NamedTuple

from ratchet.contracts import outbox_paths
from ratchet.runners.runner import Engine
from ratchet.store.base import Entry, Store

_COUNTS_NS = 7 * 24 * 3600 * 1_000_000_000
"""A host that was down for a night, or for a holiday, is expected back."""


class Host(NamedTuple):
    """A host with an engine. gpus: its devices. entry: of its mark, which was written when it was heard last."""

    name: str
    engine: str
    gpus: int
    entry: Entry


def mark_host(store: Store, installation: str, engine: Engine, gpus: int | None) -> None:
    """Mark that the host of an engine is there. gpus: how many devices it has; None: as many as before."""
    key = outbox_paths.host(installation, engine.id)
    if gpus is None:
        before = _read(store, there) if (there := store.head(key)) is not None else None
        gpus = before.gpus if before is not None else 0
    _write(store, key, {"host": engine.host, "engine": engine.id, "gpus": gpus})


def hosts(store: Store, installation: str | None = None) -> list[Host]:
    """The hosts that were heard in the last seven days, unless a person has called them gone since.

    installation: without it, those of all installations.
    """
    now = store.now_ns()
    place = outbox_paths.hosts(installation) if installation is not None else outbox_paths.EVERY
    young = [
        entry
        for entry in list(store.list(place))
        if outbox_paths.is_host(entry.key) and now - entry.modified_ns <= _COUNTS_NS
    ]
    return [host for entry in young if (host := _read(store, entry)) is not None]


def mark_gone(store: Store, host: Host, *, by: str, because: str) -> None:
    """Expect a host no longer, until its reaper marks it again."""
    said = {"host": host.name, "engine": host.engine, "gpus": 0, "gone": {"by": by, "because": because}}
    _write(store, host.entry.key, said)


def _read(store: Store, entry: Entry) -> Host | None:
    """None for a host that a person has called gone; and for a mark of another release, or a damaged one.

    Its reaper writes such a mark again within a minute, while it lives.
    """
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        said = json.loads(store.read(entry.key))
        if "gone" not in said:
            return Host(str(said["host"]), str(said["engine"]), int(said["gpus"]), entry)
    return None


def _write(store: Store, key: str, content: dict[str, object]) -> None:
    before = store.head(key)
    store.replace(key, json.dumps(content).encode(), expected=before.etag if before else None)
