"""The columns that a trained model reads, from what its training recorded.

A model in production was trained by an earlier pipeline file. It is asked for scores of rows with its own columns, in
its own types, whether or not the present file declares them.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from ratchet.contracts.columns import Column, ColumnType
from ratchet.contracts.document import Document

_PREFIX = "config.columns"
_HIDDEN = frozenset({"label", "weight"})
_KEYS = frozenset(field.alias or name for name, field in Column.model_fields.items())


class Reader(Document):
    """The columns of raw rows that a model gets, in the order of its pipeline file: neither label nor weight."""

    columns: dict[str, ColumnType]
    needed: tuple[str, ...] = Field(description="Those that it cannot do without; its own code may read the others.")

    def lacks(self, source: Mapping[str, ColumnType]) -> bool:
        """Whether rows with these columns are not enough for the model: a column is not there, or has another type."""
        return any(source.get(name) != kind for name, kind in self.columns.items())


def recorded_columns(parts: Mapping[str, str]) -> dict[str, Column] | None:
    """The columns that a stage's fingerprint names, in the order of the file; None if it names none.

    parts: of the fingerprint of a validate, a features or a train. Keys of a column that are not known are left out.
    """
    found: dict[str, dict[str, Any]] = {}
    for part, value in parts.items():
        name, _, key = part.removeprefix(f"{_PREFIX}.").partition(".")
        *above, last = key.split(".")
        if part.startswith(f"{_PREFIX}.") and [*above, last][0] in _KEYS:
            place = found.setdefault(name, {})
            for each in above:
                place = place.setdefault(each, {})
            place[last] = json.loads(value)
    order = [name for name in parts.get(_PREFIX, "").split() if name in found]
    return {name: Column.model_validate(found[name]) for name in dict.fromkeys((*order, *found))} or None


def reader(columns: Mapping[str, Column]) -> Reader:
    """What a model of these columns reads."""
    given = {name: column for name, column in columns.items() if is_given(column)}
    makes = [column.make for column in columns.values() if column.make is not None]
    made = {name for make in makes for name in make.inputs}
    if any(make.in_group for make in makes):
        made |= {name for name, column in columns.items() if column.role == "group"}
    return Reader(
        columns={name: column.type for name, column in given.items()},
        needed=tuple(name for name, column in given.items() if column.is_read or name in made),
    )


def is_given(column: Column) -> bool:
    """Whether a model gets a column with its raw rows."""
    return not column.derived and column.role not in _HIDDEN
