"""Expressions that choose rows, such as `country == "DE" and hour < 6`. Nothing evaluates them as code.

    expression   any of: a or b · a and b · not a · (a) · comparison
    comparison   column == value · != · < · <= · > · >= · column in [value, value] · column not in [value]
                 column is missing · column is not missing · column (of type bool)
    value        a number · "text" or 'text' · true · false

`and` binds closer than `or`, `not` closer than both. A comparison with a missing value is false; `not` makes it true.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

GRAMMAR = (
    "column == value, !=, <, <=, >, >=, in [..], not in [..], is missing, joined by and, or, not and (..); "
    'a value is 3, "text", true or false'
)
"""What is allowed, in a line."""
MAX_LENGTH = 500
_MAX_DEPTH = 50
_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![A-Za-z_0-9.])"
    r"|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>==|!=|<=|>=|[<>()\[\],]))"
)
_OPERATORS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_WORDS = frozenset({"and", "or", "not", "in", "is", "missing", "true", "false"})
Value = bool | float | str


class ExpressionError(ValueError):
    """An expression that is none. The message says what is wrong, and where."""


@dataclass(frozen=True)
class Compare:
    """A column against a value. operator: ==, !=, <, <=, > or >=."""

    column: str
    operator: str
    value: Value


@dataclass(frozen=True)
class Among:
    """A column that has one of some values."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Missing:
    """A column without a value."""

    column: str


@dataclass(frozen=True)
class Not:
    """Rows that an expression does not choose."""

    inner: "Expression"


@dataclass(frozen=True)
class All:
    """Rows that every part chooses."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True)
class Any:
    """Rows that some part chooses."""

    parts: tuple["Expression", ...]


Expression = Compare | Among | Missing | Not | All | Any


class _Token(NamedTuple):
    kind: str
    text: str
    place: int


def parse(text: str) -> Expression:
    """Read an expression. Raises ExpressionError."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"is {len(text)} characters long; at most {MAX_LENGTH} are allowed")
    parser = _Parser([*_tokens(text), _Token("end", "", len(text))])
    found = parser.either()
    parser.expect("end", "", "and, or, or the end")
    return found


def columns_of(expression: Expression) -> set[str]:
    """The columns that an expression reads."""
    return {leaf.column for leaf in leaves(expression)}


def leaves(expression: Expression) -> Iterator[Compare | Among | Missing]:
    """The comparisons of an expression, in their order."""
    match expression:
        case Not(inner):
            yield from leaves(inner)
        case All(parts) | Any(parts):
            for part in parts:
                yield from leaves(part)
        case leaf:
            yield leaf


def misuse(expression: Expression, types: Mapping[str, str]) -> str:
    """The first comparison that does not fit the type of its column, in words; empty if all fit."""
    return next((wrong for leaf in leaves(expression) if (wrong := _misuse(leaf, types[leaf.column]))), "")


def _misuse(leaf: Compare | Among | Missing, kind: str) -> str:
    if isinstance(leaf, Missing):
        return ""
    values = (leaf.value,) if isinstance(leaf, Compare) else leaf.values
    fitting = {"int64": float, "float64": float, "string": str, "bool": bool}.get(kind)
    if fitting is None:
        return f"{leaf.column} is a {kind}, which can only be asked for `is missing`"
    for value in values:
        if not isinstance(value, fitting):
            return f"{leaf.column} is {kind}, and {_shown(value)} is not"
    if isinstance(leaf, Compare) and leaf.operator not in {"==", "!="} and fitting is not float:
        return f"{leaf.column} is {kind}, which has no order; use ==, != or in"
    return ""


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if found is None:
            rest = text[place:].lstrip()
            raise ExpressionError(f"{rest[:12]!r} at character {len(text) - len(rest) + 1} is not understood")
        kind = str(found.lastgroup)
        yield _Token(kind, found[kind], found.start(kind))
        place = found.end()


class _Parser:
    """Recursive descent over the tokens; each method reads one rule of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def either(self) -> Expression:
        parts = [self._both()]
        while self._take("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Any(tuple(parts))

    def expect(self, kind: str, text: str, wanted: str) -> _Token:
        token = self._tokens[self._next]
        if token.kind != kind or (text and token.text != text):
            at = f"{token.text!r} at character {token.place + 1}" if token.text else "the end"
            raise ExpressionError(f"expected {wanted} instead of {at}")
        self._next += 1
        return token

    def _both(self) -> Expression:
        parts = [self._one()]
        while self._take("and"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _one(self) -> Expression:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ExpressionError(f"is nested deeper than {_MAX_DEPTH} levels")
        try:
            if self._take("not"):
                return Not(self._one())
            if self._take("("):
                inner = self.either()
                self.expect("sign", ")", "`)`")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Expression:
        column = self._column()
        token = self._tokens[self._next]
        if token.text in _OPERATORS and token.kind == "sign":
            self._next += 1
            return Compare(column, token.text, self._value())
        if self._take("in"):
            return Among(column, self._values())
        if self._take("not"):
            self.expect("name", "in", "`in`")
            return Not(Among(column, self._values()))
        if self._take("is"):
            turned = self._take("not")
            self.expect("name", "missing", "`missing`")
            return Not(Missing(column)) if turned else Missing(column)
        return Compare(column, "==", value=True)

    def _column(self) -> str:
        token = self._tokens[self._next]
        if token.text in _WORDS:
            raise ExpressionError(f"expected a column instead of {token.text!r} at character {token.place + 1}")
        return self.expect("name", "", "a column").text

    def _values(self) -> tuple[Value, ...]:
        self.expect("sign", "[", "`[`")
        found = [self._value()]
        while self._take(","):
            found.append(self._value())
        self.expect("sign", "]", "`,` or `]`")
        return tuple(found)

    def _value(self) -> Value:
        token = self._tokens[self._next]
        self._next += 1
        if token.kind == "number":
            return float(token.text)
        if token.kind == "text":
            return token.text[1:-1]
        if token.text in {"true", "false"}:
            return token.text == "true"
        self._next -= 1
        return self.expect("value", "", 'a number, "text", true or false').text

    def _take(self, text: str) -> bool:
        token = self._tokens[self._next]
        if token.text != text or token.kind == "text":
            return False
        self._next += 1
        return True
