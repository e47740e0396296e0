"""A copy of a store that wrote the newest file first, so that the times of its files say the opposite."""

import os
import time

from ratchet.store.base import Store


def turn_round(store: Store, prefix: str = "") -> None:
    """Write all files again, the newest first, each later than all before it."""
    for number, entry in enumerate(sorted(store.list(prefix), key=lambda entry: entry.modified_ns, reverse=True)):
        data = store.read(entry.key)
        store.delete(entry.key)
        store.create(entry.key, data)
        if (path := store.local(entry.key)) is not None:  # a file system counts no nanoseconds
            moment = time.time_ns() + number * 10**6
            os.utime(path, ns=(moment, moment))
