"""Documents in the store that contain their digest, so that a reader detects every change."""

import json
import re
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import canonical, digest, digest_of

_NUMBER = re.compile(rb'(?m)(^ +|(?<!\\)(?:\\\\)*": )(-?(?:0\.0000\d+|\d[\d.]*e[-+]?\d+))(?=,?$)')
_JSON: TypeAdapter[Any] = TypeAdapter(Any)
_Model = TypeVar("_Model", bound=Document)


def seal(document: Document) -> bytes:
    """A document as JSON with its sha256."""
    plain = document.model_dump(mode="json", by_alias=True)
    return _render({"sha256": digest_of(plain), "document": plain})


def unseal(data: bytes, model: type[_Model], *, where: str, remedy: str) -> _Model:
    """Read a sealed document. Raises CorruptArtifact, which names `where`, if a single byte has changed."""
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
    try:
        return model.model_validate_json(plain)
    except ValidationError as error:
        first = error.errors()[0]
        raise CorruptArtifact(
            f"{where}: another version of Ratchet wrote it: {'.'.join(map(str, first['loc']))}: {first['msg']}",
            remedy=remedy,
        ) from error


def _render(sealed: dict[str, Any]) -> bytes:
    """As `json` writes it with one blank of indentation. pydantic writes the same nine times faster, but for numbers.

    Such numbers are below 0.0001 or have an exponent. In a line they are behind the blanks, or behind a key: a quote
    that is part of a text has a backslash before it.
    """
    return _NUMBER.sub(_as_json_writes, _JSON.dump_json(sealed, indent=1))


def _as_json_writes(found: re.Match[bytes]) -> bytes:
    return found[1] + repr(float(found[2])).encode()
