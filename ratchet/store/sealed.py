"""Documents in the store that contain their digest, so that a reader detects every change."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import TypeAdapter

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import canonical, digest, digest_of
from ratchet.contracts.stored import as_it_is, read_stored, with_unknown
from ratchet.store.base import Store

_NUMBER = re.compile(rb" (-?(?:0\.0000\d+|\d[\d.]*e[-+]?\d+))(?=,?\n)")
_JSON: TypeAdapter[Any] = TypeAdapter(Any)
_Model = TypeVar("_Model", bound=Document)


def seal(document: Document) -> bytes:
    """A document as JSON with its sha256."""
    plain = document.model_dump(mode="json", by_alias=True)
    return _render({"sha256": digest_of(plain), "document": plain})


def seal_again(data: bytes, before: Document, after: Document, *, unknown: Callable[[Any], Any] = as_it_is) -> bytes:
    """A document that was changed, with what this release does not know of it. data: what `before` was read from."""
    plain = with_unknown(before, json.loads(data)["document"], after, unknown)
    return _render({"sha256": digest_of(plain), "document": plain})


def replace_sealed(
    store: Store, key: str, after: Document, *, expected: str, unknown: Callable[[Any], Any] = as_it_is
) -> bool:
    """Replace a document by a changed one, which keeps what this release does not know; whether it was as expected."""
    try:
        data = store.read(key)
    except FileNotFoundError:
        return False
    before = unseal(data, type(after), where=f"{store.uri}/{key}", remedy="restore it from a backup")
    return store.replace(key, seal_again(data, before, after, unknown=unknown), expected=expected)


def unseal(data: bytes, model: type[_Model], *, where: str, remedy: str) -> _Model:
    """Read a sealed document. Raises CorruptArtifact, which names `where`, if a byte has changed."""
    try:
        found = json.loads(data)
        plain = canonical(found["document"])
        whole = found["sha256"] == digest(plain) and data == _render(found)
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise CorruptArtifact(
            f"{where} is damaged: its {len(data):,} bytes do not match the digest inside", remedy=remedy
        )
    return read_stored(model, plain, where=where)


def _render(sealed: dict[str, Any]) -> bytes:
    """As `json` writes it with one blank of indentation. pydantic writes the same nine times faster, but for numbers.

    Such numbers are below 0.0001 or have an exponent. A blank is before them and the end of the line behind them, and a
    quote ends each text that ends a line.
    """
    return _NUMBER.sub(_as_json_writes, _JSON.dump_json(sealed, indent=1))


def _as_json_writes(found: re.Match[bytes]) -> bytes:
    return b" " + repr(float(found[1])).encode()
