"""Several columns in one line of a pipeline file: a list or a range of their names in braces, as in `price_{0..63}`."""

import itertools
import re
from typing import Any, Final

from ratchet.contracts.yaml_lines import KeyPath, YamlDocument

MAX_COLUMNS: Final = 5_000
"""Columns of a pipeline."""
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d{1,9})\.\.(\d{1,9})$")
_WORD = re.compile(r"[A-Za-z0-9_]*$")
_COLUMNS: KeyPath = ("columns",)
_ALLOWED = "a range as in price_{0..63} or day_{01..31}, or words as in views_{7d,30d}"


def expand_columns(document: YamlDocument) -> None:
    """Replace each key with braces under `columns` by the names that it means, each with the same content.

    A column that has a key of its own takes that content, wherever it is. What is not allowed becomes a problem of the
    document.
    """
    columns = document.data.get("columns") if isinstance(document.data, dict) else None
    if not isinstance(columns, dict) or not any(map(_is_pattern, columns)):
        return
    expanded: dict[str, Any] = {}
    taken: dict[str, str] = {}
    for key, content in columns.items():
        if not _is_pattern(key):
            expanded[key] = content
            continue
        written: KeyPath = (*_COLUMNS, key)
        lines = {path[2:]: line for path, line in document.lines.items() if path[:2] == written}
        for name in _names(document, key, room=MAX_COLUMNS - len(expanded)):
            if name in columns:
                continue
            if name in taken:
                document.refuse(written, f"{name} is in {taken[name]} too", "each column once")
                continue
            taken[name] = key
            expanded[name] = content
            document.lines.update({(*_COLUMNS, name, *below): line for below, line in lines.items()})
    document.data["columns"] = expanded


def _is_pattern(key: object) -> bool:
    return isinstance(key, str) and ("{" in key or "}" in key)


def _names(document: YamlDocument, key: str, *, room: int) -> list[str]:
    """The names that a key means, in the order of its braces; the last brace changes fastest."""
    path = (*_COLUMNS, key)
    parts = _BRACES.split(key)
    choices = [[part] if index % 2 == 0 else _choices(part) for index, part in enumerate(parts)]
    if any("{" in part or "}" in part for part in parts[::2]) or not all(choices):
        document.refuse(path, "the braces of this name are not understood", _ALLOWED)
        return []
    many = 1
    for some in choices:
        many *= len(some)
    if many > room:
        document.refuse(path, f"means {many:,} columns", f"at most {MAX_COLUMNS:,} columns in a pipeline")
        return []
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def _choices(text: str) -> list[str]:
    """What one pair of braces means; nothing if it is not understood. Zeros in front of the first number count."""
    if ends := _RANGE.match(text):
        first, last = ends.groups()
        width = len(first) if first.startswith("0") else 0
        if int(first) > int(last) or int(last) - int(first) >= 10 * MAX_COLUMNS:
            return []
        return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    words = [word.strip() for word in text.split(",")]
    return words if len(words) > 1 and all(map(_WORD.match, words)) and len(set(words)) == len(words) else []
