"""Documents in the store that have no digest inside, such as plans and outcomes."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from ratchet.contracts.document import Document
from ratchet.contracts.stored import as_it_is, read_stored, with_unknown
from ratchet.store.base import Store

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
