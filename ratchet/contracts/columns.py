"""The schema of a row: the type, the role and the allowed values of each column."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Literal

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.misfits import Misfit, UnknownKey
from ratchet.contracts.quantities import Fraction

Role = Literal["group", "time", "label", "weight", "numeric", "categorical", "id", "ignore"]
ColumnType = Literal["int64", "float64", "string", "bool", "timestamp", "date"]
Transform = Literal["log1p"]
Statistic = Literal["count", "target_mean"]

FEATURES: frozenset[Role] = frozenset({"numeric", "categorical"})
"""Roles of the columns that the model reads."""

_ORDERED = frozenset({"int64", "float64"})
_TYPES_OF_ROLE: dict[Role, frozenset[ColumnType]] = {
    "group": frozenset({"int64", "string"}),
    "time": frozenset({"timestamp", "date"}),
    "label": frozenset({"int64", "float64", "bool"}),
    "weight": frozenset({"int64", "float64"}),
    "numeric": frozenset({"int64", "float64", "bool"}),
    "categorical": frozenset({"string", "int64", "bool"}),
}
_PYTHON_TYPES: dict[ColumnType, tuple[type, ...]] = {
    "int64": (int,),
    "float64": (int, float),
    "string": (str,),
    "bool": (bool,),
    "timestamp": (str,),
    "date": (str,),
}

Value = Annotated[bool | int | float | str, Field(union_mode="smart")]


class Column(Document):
    """One column. Each day must obey its rules before training."""

    role: Role = Field(
        description="What the column is for. numeric and categorical are features. Rows with the same group are ranked "
        "together. A row of weight 2 counts as that row twice. The model does not read id and ignore; the snapshot "
        "keeps them."
    )
    type: ColumnType = Field(
        description="The type of its values. A source column that cannot be cast without loss is refused."
    )
    allowed: tuple[Value, ...] | None = Field(None, alias="in", min_length=1, description="The only values allowed.")
    min: float | None = Field(None, description="The smallest value allowed.")
    max: float | None = Field(None, description="The largest value allowed.")
    max_null: Fraction | None = Field(
        None, description="The largest share of missing values allowed. Without it, missing values are not checked."
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

    @property
    def is_feature(self) -> bool:
        """Whether the model reads this column."""
        return self.role in FEATURES


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


def _statistics_of_categories(column: Column) -> Iterator[str]:
    if column.statistics and column.role != "categorical":
        yield f"statistics need role categorical, not {column.role}"
    if len(set(column.statistics)) < len(column.statistics):
        yield "statistics names one twice"


def _type_of_values(column: Column) -> Iterator[str]:
    for value in column.allowed or ():
        if not isinstance(value, _PYTHON_TYPES[column.type]) or (isinstance(value, bool) and column.type != "bool"):
            yield f"in: {value!r} is not a {column.type}"


_RULES: tuple[Callable[[Column], Iterator[str]], ...] = (
    _type_of_role,
    _numbers_have_bounds,
    _bounds_in_order,
    _features_are_derived,
    _numbers_are_transformed,
    _domain_of_log1p,
    _statistics_of_categories,
    _type_of_values,
)


def columns_fit(columns: Mapping[str, Column]) -> Iterator[Misfit]:
    """Find the keys of a column that do not fit together, for each column."""
    for name, column in columns.items():
        for rule in _RULES:
            with suppress(UnknownKey):
                for message in rule(column):
                    yield Misfit(("columns", name), message)
