"""The slices of the held-out rows: the values of a column, the bins of a number, or what an expression chooses."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema, model_validator

from ratchet.contracts.document import Document
from ratchet.contracts.expressions import ExpressionError, columns_of, parse

MAX_BINS = 20
_LEAST_BINS = 2  # a single bin is all rows


def _parse_bins(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        if _LEAST_BINS <= value <= MAX_BINS:
            return value
        raise ValueError(f"{value} bins; allowed: {_LEAST_BINS} to {MAX_BINS}")
    if isinstance(value, list | tuple) and all(isinstance(edge, int | float) for edge in value):
        edges = tuple(float(edge) for edge in value)
        if 1 <= len(edges) < MAX_BINS and all(map(math.isfinite, edges)) and list(edges) == sorted(set(edges)):
            return edges
    raise ValueError(f"{value!r} are no bins; allowed: a number of them, or their inner edges in order, as in [10, 50]")


def _parse_where(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no expression; write it like 'price > 100'")  # noqa: TRY004 - what pydantic reports
    try:
        parse(value)
    except ExpressionError as error:
        raise ValueError(f"{value!r}: {error}") from None
    return value.strip()


class Slice(Document):
    """One entry of evaluate.slices."""

    column: str = ""
    bins: Annotated[int | tuple[float, ...] | None, BeforeValidator(_parse_bins)] = None
    where: Annotated[str, BeforeValidator(_parse_where)] = ""

    @model_validator(mode="after")
    def _is_one_kind(self) -> "Slice":
        if bool(self.column) == bool(self.where) or (self.where and self.bins is not None):
            raise ValueError("a slice is a column, {column: .., bins: ..} or {where: ..}")
        return self

    @property
    def columns(self) -> set[str]:
        """The columns that it reads."""
        return columns_of(parse(self.where)) if self.where else {self.column}

    @property
    def title(self) -> str:
        """What people call it."""
        return self.where or (self.column if self.bins is None else f"bins of {self.column}")


def read_slice(value: object) -> Slice:
    """An entry from what a file says: a bare name is a column. Made here, as a list is no tuple in strict mode."""
    if isinstance(value, Slice):
        return value
    if isinstance(value, str):
        return Slice(column=value)
    if isinstance(value, dict) and set(value) <= {"column", "bins", "where"}:
        return Slice(**value)
    raise ValueError(f"{value!r} is no slice; write country, {{column: price, bins: 4}} or {{where: 'price > 100'}}")


def _show(value: Slice) -> Any:
    return value.column if value.column and value.bins is None else value.model_dump(mode="json", exclude_defaults=True)


SliceKey = Annotated[
    Slice,
    BeforeValidator(read_slice),
    PlainSerializer(_show),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {
                        "column": {"type": "string"},
                        "bins": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "number"}}]},
                        "where": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
"""An entry as people write it."""
