"""JSON that means one thing only: no key twice, no NaN, nothing after the end."""

import json
from typing import Any, NoReturn

from team.engine_filter.refusal import Refusal


def parse(content: bytes | str, what: str) -> Any:
    """The value of `content`. Raises Refusal, with `what` it is part of, if two readers could read it differently."""
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, _Ambiguous) else "no plain JSON"
        raise Refusal(f"{what}: {reason}", "UTF-8 JSON, each key once") from None


class _Ambiguous(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Ambiguous(f"key {key[:60]!r} is there twice")
        found[key] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise _Ambiguous(f"{name} is no JSON")
