"""Documents in the store that have no digest inside, such as plans and outcomes."""

import json
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ratchet.contracts.document import Document
from ratchet.contracts.stored import as_it_is, read_stored, with_unknown
from ratchet.store.base import Entry, Store

_TRIES = 10
_WAIT_S = 0.05
"""Before the second try at most so long, before each further one at most twice as long."""
_Document = TypeVar("_Document", bound=Document)


def read_document(store: Store, key: str, kind: type[_Document]) -> _Document:
    """The document of a key. Raises FileNotFoundError, and what `read_stored` raises."""
    return read_stored(kind, store.read(key), where=f"{store.uri}/{key}")


def replace_document(
    store: Store, key: str, after: Document, *, expected: str, unknown: Callable[[Any], Any] = as_it_is
) -> bool:
    """Replace a document by a changed one, which keeps what this release does not know; whether it was as expected.

    Raises what `read_stored` raises, also for a document that is not read for its content.
    """
    try:
        data = store.read(key)
    except FileNotFoundError:
        return False
    before = read_stored(type(after), data, where=f"{store.uri}/{key}")
    plain = with_unknown(before, json.loads(data), after, unknown)
    return store.replace(key, json.dumps(plain, indent=1, ensure_ascii=False).encode(), expected=expected)


def write_shared(store: Store, key: str, make: Callable[[Entry | None], bytes | None]) -> bool:
    """Write what many processes change; whether it is as it should be, or others were faster each time.

    make: what to write in the place of an entry, which it may read, or of none; None where it is as it should be.
    """
    for attempt in range(_TRIES):
        entry = store.head(key)
        data = make(entry)
        if data is None or store.replace(key, data, expected=entry.etag if entry else None):
            return True
        time.sleep(random.uniform(0, _WAIT_S * 2**attempt))  # many may have come at once
    return False
