"""The schema of a row: the type, the role and the allowed values of each column.

A list column holds several values in a row (`type: list<string>`); a vector column holds numbers, always as many
(`type: list<float64>` with role numeric).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ratchet.contracts.document import Document
from ratchet.contracts.make import Make
from ratchet.contracts.misfits import UnknownKey
from ratchet.contracts.quantities import Fraction

Role = Literal["group", "time", "label", "weight", "numeric", "categorical", "list_weight", "id", "ignore"]
ColumnType = Literal[
    "int64", "float64", "string", "bool", "timestamp", "date", "list<int64>", "list<string>", "list<float64>"
]
Transform = Literal["log1p"]
Statistic = Literal["count", "target_mean"]
Keep = Literal["first", "last"]
Pool = Literal["mean", "sum"]

MEANING = (
    "The schema of a row: each column by name. A range or words in braces mean several columns, as in price_{0..63}, "
    "day_{01..31} or views_{7d,30d}; one that also has a key of its own takes what is there."
)

LISTS: Mapping[ColumnType, ColumnType] = {
    "list<int64>": "int64",
    "list<string>": "string",
    "list<float64>": "float64",
}
"""The types that hold several values in a row, each with the type of its values."""
LONGEST_LIST, LONGEST_VECTOR = 1000, 4096

FEATURES: frozenset[Role] = frozenset({"numeric", "categorical"})
"""Roles of the columns that the model reads."""

_COMPUTED_WITH: frozenset[Role] = frozenset({"label", "weight", "list_weight"})
_ORDERED = frozenset({"int64", "float64"})
_TYPES_OF_ROLE: dict[Role, frozenset[ColumnType]] = {
    "group": frozenset({"int64", "string"}),
    "time": frozenset({"timestamp", "date"}),
    "label": frozenset({"int64", "float64", "bool"}),
    "weight": frozenset({"int64", "float64"}),
    "numeric": frozenset({"int64", "float64", "bool", "list<float64>"}),
    "categorical": frozenset({"string", "int64", "bool", "list<int64>", "list<string>"}),
    "list_weight": frozenset({"list<float64>"}),
    "id": frozenset({"int64", "float64", "string", "bool", "timestamp", "date"}),
}
_PYTHON_TYPES: dict[ColumnType, tuple[type, ...]] = {
    "int64": (int,),
    "float64": (int, float),
    "string": (str,),
    "bool": (bool,),
    "timestamp": (str,),
    "date": (str,),
    "list<int64>": (int,),
    "list<string>": (str,),
    "list<float64>": (int, float),
}

Value = Annotated[bool | int | float | str, Field(union_mode="smart")]


class Column(Document):
    """One column. Each day must obey its rules before training."""

    role: Role = Field(
        description="What the column is for. numeric and categorical are features. Rows with the same group are ranked "
        "together. A row of weight 2 counts as that row twice. list_weight holds the weights of a list column's "
        "values. The model does not read id and ignore; the snapshot keeps them."
    )
    type: ColumnType = Field(
        description="The type of its values. A source column that cannot be cast without loss is refused. "
        "list<int64> and list<string> hold several categories in a row, list<float64> a vector, or weights of a list."
    )
    allowed: tuple[Value, ...] | None = Field(
        None, alias="in", min_length=1, description="The only values allowed; of a list, in it."
    )
    min: float | None = Field(None, description="The smallest value allowed.")
    max: float | None = Field(None, description="The largest value allowed.")
    max_null: Fraction | None = Field(
        None, description="The largest share of missing values allowed. Without it, missing values are not checked."
    )
    on_breach: Literal["fail", "warn"] = Field(
        "fail",
        description="What to do with a day on which in, min, max or max_null does not hold. warn: report it, and train "
        "on the day. A label, a weight and a transform need their rules, so there it is fail.",
    )
    transform: Transform | None = Field(
        None, description="The function that the model applies before it scales the value. log1p needs a min above -1."
    )
    statistics: tuple[Statistic, ...] = Field(
        (),
        description="Numbers that the model reads of a category beside its vector. count: the logarithm of the rows "
        "that have the value. target_mean: their mean label, drawn towards the mean of all rows where they are few. A "
        "row of training gets those of the training days before it, so that none of them holds its own label.",
    )
    derived: bool = Field(
        default=False, description="Whether derive() in features.py computes the column. The source does not have it."
    )
    make: Make | None = Field(
        None,
        description="How the column is made from others of the same row. The source does not have it; training and a "
        "served model make it by the same code.",
    )
    dimension: int | None = Field(
        None, ge=1, le=LONGEST_VECTOR, description="The numbers of a vector: of role numeric and type list<float64>."
    )
    max_length: int | None = Field(
        None,
        ge=1,
        le=LONGEST_LIST,
        description="The values of a list that the model reads, at most: of role categorical and a list type. Each row "
        "takes the room of so many, so choose what most rows need.",
    )
    keep: Keep | None = Field(
        None,
        description="The end of a longer list that the model reads; last, the default, is the newest if the "
        "source appends.",
    )
    pool: Pool | None = Field(
        None, description="What the vectors of a list's values become: their mean (the default) or their sum."
    )
    weights: str | None = Field(
        None,
        description="The list_weight column with a weight for each value of this list. The mean is then the weighted "
        "mean.",
    )
    share: str | None = Field(
        None,
        description="The categorical column of the same values whose vectors this list uses, as the items of a history "
        "those of the item of the row.",
    )

    @model_validator(mode="after")
    def _made_is_derived(self) -> Self:
        if self.make is not None:
            object.__setattr__(self, "derived", True)  # a document is frozen
        return self

    @property
    def warns(self) -> tuple[str, ...]:
        """The keys of the rules that only warn."""
        return () if self.on_breach == "fail" else ("in", "min", "max", "max_null")

    @property
    def is_feature(self) -> bool:
        """Whether the model reads this column as a number or a category."""
        return self.role in FEATURES

    @property
    def is_read(self) -> bool:
        """Whether the model reads this column at all: a feature, or the weights of a list."""
        return self.is_feature or self.role == "list_weight"

    @property
    def is_list(self) -> bool:
        """Whether it holds several categories in a row."""
        return _is_list(self)

    @property
    def is_vector(self) -> bool:
        """Whether it holds a vector of numbers."""
        return _is_vector(self)

    @property
    def width(self) -> int:
        """The values of a row that a model reads, at most: 1, or the length of a vector or list."""
        return self.dimension or self.max_length or 1


def _is_list(column: Column) -> bool:
    return column.role == "categorical" and column.type in LISTS


def _is_vector(column: Column) -> bool:
    return column.role == "numeric" and column.type in LISTS


def _type_of_role(column: Column) -> Iterator[str]:
    types = _TYPES_OF_ROLE.get(column.role)
    if types and column.type not in types:
        yield f"a {column.role} column cannot be {column.type}; allowed: {', '.join(sorted(types))}"


def _numbers_have_bounds(column: Column) -> Iterator[str]:
    if (column.min is not None or column.max is not None) and column.type not in _ORDERED:
        yield f"min and max need a number, not {column.type}; allowed: int64, float64"


def _bounds_in_order(column: Column) -> Iterator[str]:
    if column.min is not None and column.max is not None and column.min > column.max:
        yield f"min {column.min:g} is above max {column.max:g}"


def _features_are_derived(column: Column) -> Iterator[str]:
    if column.derived and column.role not in FEATURES:
        yield f"a derived column is a feature, not {column.role}; allowed: numeric, categorical"


def _numbers_are_transformed(column: Column) -> Iterator[str]:
    if column.transform and column.role != "numeric":
        yield f"transform needs role numeric, not {column.role}"


def _domain_of_log1p(column: Column) -> Iterator[str]:
    if column.transform == "log1p" and (column.min is None or column.min <= -1):
        yield "transform log1p needs a min above -1, so that no value is outside its domain"


def _breaches_of_rules(column: Column) -> Iterator[str]:
    if column.on_breach == "fail":
        return
    if (column.allowed, column.min, column.max, column.max_null) == (None, None, None, None):
        yield "on_breach: warn is of the rules in, min, max and max_null; this column has none of them"
    if column.role in _COMPUTED_WITH or column.transform:
        needing = f"transform {column.transform}" if column.transform else f"role {column.role}"
        yield f"on_breach: warn does not go together with {needing}, which needs the rules of the column"


def _statistics_of_categories(column: Column) -> Iterator[str]:
    if column.statistics and column.role != "categorical":
        yield f"statistics need role categorical, not {column.role}"
    if len(set(column.statistics)) < len(column.statistics):
        yield "statistics names one twice"


def _type_of_values(column: Column) -> Iterator[str]:
    for value in column.allowed or ():
        if not isinstance(value, _PYTHON_TYPES[column.type]) or (isinstance(value, bool) and column.type != "bool"):
            yield f"in: {value!r} is not a {column.type}"


def _length_is_stated(column: Column) -> Iterator[str]:
    if _is_vector(column) and column.dimension is None:
        yield "a vector needs its dimension, as in `dimension: 64`"
    if column.dimension is not None and not _is_vector(column):
        yield "dimension is of a vector; it needs role numeric and type list<float64>"
    if _is_list(column) and column.max_length is None:
        yield "a list needs its max_length, as in `max_length: 20`"
    of_lists = [key for key in ("max_length", "keep", "pool", "weights", "share") if getattr(column, key) is not None]
    if of_lists and not _is_list(column):
        is_value = column.role == "categorical" and column.type in {"int64", "string"}
        written = f"write `type: list<{column.type}>`" if is_value else "it needs role categorical and a list type"
        yield f"{of_lists[0]} is of a list; {written}"


def _lists_are_of_the_source(column: Column) -> Iterator[str]:
    if column.derived and column.type in LISTS:
        yield "a derived column has one value in a row, no list; deliver the list with the source"


def _lists_are_not_transformed(column: Column) -> Iterator[str]:
    if column.transform and _is_vector(column):
        yield "transform is of a number, not of a vector; transform the source, or take it out"


_RULES: tuple[Callable[[Column], Iterator[str]], ...] = (
    _type_of_role,
    _length_is_stated,
    _lists_are_of_the_source,
    _lists_are_not_transformed,
    _numbers_have_bounds,
    _bounds_in_order,
    _features_are_derived,
    _numbers_are_transformed,
    _domain_of_log1p,
    _breaches_of_rules,
    _statistics_of_categories,
    _type_of_values,
)


def problems_of(column: Column) -> Iterator[str]:
    """The keys of a column that do not fit together."""
    for rule in _RULES:
        with suppress(UnknownKey):
            yield from rule(column)
