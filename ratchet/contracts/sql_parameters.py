"""The parameters of a query: `:date`, `:start` and `:end`, where they are no part of a text, a name or a comment."""

import re
from collections.abc import Callable, Mapping

PARAMETERS = ("date", "start", "end")
BOUNDS = frozenset({"start", "end"})

_TOKEN = re.compile(
    r"""
    (?<![\w$])[eE]'(?:[^'\\]|\\.|'')*'      # a text with escapes, of PostgreSQL
    | '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*`
    | (?<![\w$])\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$
    | (?P<comment>--[^\n]*|/\*.*?\*/)
    | (?<![\w:\\]):(?P<name>date|start|end)\b
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(?=:)")


def parameters(query: str) -> frozenset[str]:
    """The names of the parameters that a query has."""
    return frozenset(found["name"] for found in _TOKEN.finditer(query) if found["name"])


def filled(query: str, values: Mapping[str, str], *, other: Callable[[str], str] = str) -> str:
    """A query with other SQL in the place of each parameter. other: what a text, a name and a comment become."""
    return _TOKEN.sub(lambda found: values[found["name"]] if found["name"] else other(found[0]), query)


def unescaped(query: str) -> str:
    r"""A query with `:` in the place of `\:`, as SQLAlchemy reads a text: some queries are written for it."""
    return _ESCAPED.sub("", query)


def without_end(query: str) -> str:
    """A query without what comes after it: semicolons and comments."""
    bare = _TOKEN.sub(lambda found: " " * len(found[0]) if found["comment"] else found[0], query)
    return query[: len(bare.rstrip("; \t\r\n"))]
