"""Documents in the store that contain their digest, so that a reader detects every change."""

import json
import re
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import canonical, digest, digest_of

_EXPONENT = re.compile(rb" -?\d[\d.]*e")
"""What may be a number with an exponent; in a text it costs time and nothing else."""
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
    """As `json` writes it with one blank of indentation; pydantic writes the same, but for exponents, and faster."""
    fast = _JSON.dump_json(sealed, indent=1)
    return (
        json.dumps(sealed, indent=1, ensure_ascii=False, allow_nan=False).encode() if _EXPONENT.search(fast) else fast
    )
