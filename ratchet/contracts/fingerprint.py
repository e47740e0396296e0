"""Fingerprints: the identity of work, before it is done. The same fingerprint means the same bytes."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel


def digest(data: bytes) -> str:
    """Sha256 of bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def digest_of(document: Any) -> str:
    """Sha256 of a JSON document in its canonical form: sorted keys, no blanks, no NaN."""
    return digest(canonical(document))


def canonical(document: Any) -> bytes:
    """A JSON document as bytes for hashing. No other code writes documents for hashing."""
    plain = document.model_dump(mode="json", by_alias=True) if isinstance(document, BaseModel) else document
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def fingerprint(parts: Mapping[str, str]) -> str:
    """Sha256 over named parts. The parts of two fingerprints show which part changed."""
    return digest_of(dict(parts))


def flatten(document: BaseModel | Mapping[str, Any], prefix: str) -> dict[str, str]:
    """A document as parts, one for each leaf: `{"config.train.epochs": "3"}`."""
    plain = document.model_dump(mode="json", by_alias=True) if isinstance(document, BaseModel) else document
    return dict(_leaves(plain, prefix))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True)
    if isinstance(value, Mapping) and value:
        for key in sorted(value):
            yield from _leaves(value[key], f"{path}.{key}")
    else:
        yield path, leaf(value)


def leaf(value: Any) -> str:
    """The text of a part: the JSON of one leaf. A list is one leaf."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The differences between two sets of parts, as lines such as `config.train.epochs: 3 -> 1`."""
    lines = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old != new:
            lines.append(f"{name}: {_short(old)} -> {_short(new)}")
    return lines


def _short(value: str | None) -> str:
    if value is None:
        return "(none)"
    return value[:12] if len(value) == 64 else value  # noqa: PLR2004 - a sha256 in hex
