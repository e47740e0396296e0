"""The schema of a row: what each column is, what it is for, and what its values may be."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tasks.contracts.model import Document
from tasks.contracts.quantities import Fraction

Role = Literal["group", "time", "label", "weight", "numeric", "categorical", "id", "ignore"]
ColumnType = Literal["int64", "float64", "string", "bool", "timestamp", "date"]
Transform = Literal["log1p"]

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
    """One column. Rules are checked on every day before anything is trained."""

    role: Role = Field(description="What the column is for.")
    type: ColumnType = Field(
        description="The type of its values; a source column that cannot be cast without loss is refused."
    )
    allowed: tuple[Value, ...] | None = Field(None, alias="in", min_length=1, description="The only values allowed.")
    min: float | None = Field(None, description="The least value allowed.")
    max: float | None = Field(None, description="The greatest value allowed.")
    max_null: Fraction | None = Field(
        None, description="The largest share of missing values allowed; not checked if absent."
    )
    transform: Transform | None = Field(None, description="Applied inside the model before scaling.")
    derived: bool = Field(default=False, description="Made by derive() in features.py; absent from the source.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        types = _TYPES_OF_ROLE.get(self.role)
        if types and self.type not in types:
            raise ValueError(f"a {self.role} column cannot be {self.type}; allowed: {', '.join(sorted(types))}")
        if (self.min is not None or self.max is not None) and self.type not in _ORDERED:
            raise ValueError(f"min and max need a number, not {self.type}; allowed: int64, float64")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}")
        if self.derived and not self.is_feature:
            raise ValueError(f"a derived column is a feature, not {self.role}; allowed: numeric, categorical")
        if self.transform and self.role != "numeric":
            raise ValueError(f"transform needs role numeric, not {self.role}")
        if self.transform == "log1p" and (self.min is None or self.min <= -1):
            raise ValueError("transform log1p needs a min above -1, so that no value is outside its domain")
        for value in self.allowed or ():
            if not isinstance(value, _PYTHON_TYPES[self.type]) or (isinstance(value, bool) and self.type != "bool"):
                raise ValueError(f"in: {value!r} is not a {self.type}")
        return self

    @property
    def is_feature(self) -> bool:
        """Whether the model reads this column."""
        return self.role in {"numeric", "categorical"}
