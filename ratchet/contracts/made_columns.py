"""Columns that are made from others of the same row, by the pipeline file alone.

The same code makes them in training, in evaluation and in a served model (ratchet.model.made_columns).
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from pydantic import Field

from ratchet.contracts.columns import Column, ColumnType
from ratchet.contracts.document import Document
from ratchet.contracts.make import Make
from ratchet.contracts.misfits import Misfit


class MadeColumn(Document):
    """A column to make, with what that needs of the pipeline: a model's description has it."""

    name: str
    make: Make
    inputs: dict[str, ColumnType] = Field(description="The columns that it reads, by name, with their types.")
    group: str | None = Field(None, description="The group column, where it is made from the rows of a group.")


def made_columns(columns: Mapping[str, Column]) -> tuple[MadeColumn, ...]:
    """Those of a pipeline, in the order of its file."""
    group = next((name for name, column in columns.items() if column.role == "group"), None)
    return tuple(
        MadeColumn(
            name=name,
            make=column.make,
            inputs={wanted: columns[wanted].type for wanted in column.make.inputs},
            group=group if column.make.in_group else None,
        )
        for name, column in columns.items()
        if column.make is not None
    )


_NUMBERS = frozenset({"int64", "float64", "bool"})
_CATEGORIES = frozenset({"string", "int64", "bool"})
_TIMES = frozenset({"timestamp", "date"})
_INPUTS: dict[str, tuple[frozenset[str], str]] = {
    "ratio": (_NUMBERS, "float64"),
    "difference": (_NUMBERS, "float64"),
    "cross": (_CATEGORIES, "string"),
    "clip": (_NUMBERS, "float64"),
    "bucketize": (_NUMBERS, "int64"),
    "hash": (_CATEGORIES, "int64"),
    "date_part": (_TIMES, "int64"),
    "days_since": (_TIMES, "float64"),
    "in_group": (_NUMBERS, "float64"),
}
"""Of each kind, the types that it reads, and the type that it makes."""


def makes_fit(columns: Mapping[str, Column]) -> Iterator[Misfit]:
    """Each made column reads columns that a served row has, of the right types, and has the type that comes out."""
    for name, column in columns.items():
        if column.make is not None:
            for key, message, allowed, near in _problems(column, column.make, columns):
                yield Misfit(("columns", name, *key), message, allowed, near)


_Problem = tuple[tuple[str, ...], str, str, str]


def _problems(column: Column, make: Make, columns: Mapping[str, Column]) -> Iterator[_Problem]:
    if not make.kind:
        yield ("make",), "a column is made in one way", ", ".join(Make.model_fields), ""
        return
    types, made = _INPUTS[make.kind]
    if column.type != made:
        yield ("type",), f"{make.kind} makes {made}", made, ""
    known = [one for one, other in columns.items() if not other.derived and other.role not in {"label", "weight"}]
    fitting = [one for one in known if columns[one].type in types]
    for wanted in make.inputs:
        if wanted not in fitting:
            yield ("make", make.kind), _unfit(wanted, columns), ", ".join(fitting), _nearest(wanted, fitting)
    if make.clip is not None and make.clip.low is None and make.clip.high is None:
        yield ("make", "clip"), "neither low nor high is given", "", ""
    low, high = (make.clip.low, make.clip.high) if make.clip is not None else (None, None)
    if low is not None and high is not None and low > high:
        yield ("make", "clip"), f"low {low:g} is above high {high:g}", "", ""
    if make.date_part is not None and make.date_part.part == "hour":
        of = columns.get(make.date_part.of)
        if of is not None and of.type == "date":
            yield ("make", "date_part", "part"), f"{make.date_part.of} is a date, which has no hour", "", ""


def _unfit(wanted: str, columns: Mapping[str, Column]) -> str:
    column = columns.get(wanted)
    if column is None:
        return f"there is no column {wanted}"
    if column.derived:
        return f"{wanted} is derived; a column is made from those of the source"
    if column.role in {"label", "weight"}:
        return f"{wanted} is the {column.role}, which a served row does not have"
    return f"{wanted} is {column.type}"


def _nearest(wanted: str, known: list[str]) -> str:
    return next(iter(get_close_matches(wanted, known, n=1)), "")
