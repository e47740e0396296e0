"""The role, the type and the rules of each column of a data file, as far as its rows tell."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from ratchet.contracts.columns import Column, ColumnType, Role
from tasks.validate.prediction import Labels

ASK = "# ?"
"""Before what rows cannot tell."""
_LABELS = (
    "label",
    "target",
    "clicked",
    "click",
    "converted",
    "conversion",
    "bought",
    "purchased",
    "churned",
    "late",
    "y",
)
_GROUP = re.compile(r"(query|search|session|request|impression|basket|user)(_?id)?$")
_LISTED = 12
"""Texts of a column that is taken to have no others."""
_FEW_NUMBERS = 20
_UNIQUE, _FREE_TEXT = 0.999, 0.5
_TWO = 2
_GROUP_ROWS = (1.5, 1000)
_LEAK = 0.95
_LARGEST = 1e15
_ROLES: dict[str, Role] = {"numeric": "numeric", "categorical": "categorical"}
_WIDTHS = {pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32}


@dataclass(kw_only=True)
class Suggested:
    """A column of the suggestion. name: in the pipeline file. keys: of it. notes: what the rows show, or cannot."""

    source: str
    name: str
    values: pl.Series
    kind: ColumnType
    keys: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def present(self) -> pl.Series:
        """The values that are there."""
        found = self.values.drop_nulls()
        return found.drop_nans() if found.dtype.is_float() else found

    @property
    def role(self) -> str:
        """The role; empty where it is not decided yet."""
        return str(self.keys.get("role", ""))

    def take(self, role: str, *notes: str) -> None:
        """Decide the role."""
        self.keys["role"] = role
        self.notes += notes


def decide(columns: list[Suggested]) -> str:
    """Decide the role and the rules of each column. Returns the objective."""
    label = _label(columns)
    for column in columns:
        if not column.role:
            _decide(column, columns)
    objective = _objective(label, columns)
    if label is not None:
        _leaks(columns, label, objective)
    for column in columns:
        _rules(column)
    return objective


def column_of(source: str, values: pl.Series, name: str) -> Suggested:
    """A column with its type. source: its name in the file. name: that in the pipeline file."""
    kinds: dict[Any, ColumnType] = {pl.Boolean: "bool", pl.Date: "date", pl.String: "string"}
    kind = kinds.get(values.dtype.base_type())
    if values.dtype.base_type() in _WIDTHS:
        kind = "int64"
    elif values.dtype.is_float():
        kind = "float64"
    elif values.dtype.base_type() == pl.Datetime:
        kind = "timestamp"
    elif isinstance(values.dtype, pl.List):
        kind = "list<string>" if values.dtype.inner == pl.String else "list<float64>"
    made = Suggested(source=source, name=name, values=values, kind=kind or "string")
    if kind is None:
        made.take("ignore", f"{ASK} {values.dtype} is not read; convert it in the source")
    return made


def _label(columns: list[Suggested]) -> Suggested | None:
    """The column that is most likely the label."""
    called = [one for one in columns if one.name.lower() in _LABELS]
    named = [*called, *(one for one in columns if one.name.lower().startswith(("is_", "has_")))]
    two = [
        one for one in columns if not one.role and one.present.n_unique() == _TWO and not one.kind.startswith("list")
    ]
    of_two = [one for one in two if one.kind in {"int64", "bool", "string"} or _is_zero_or_one(one)]
    numbers = {"float64", "int64"}
    found = next((one for one in named if one in of_two or one.kind in numbers), of_two[-1] if of_two else None)
    if found is None:
        return None
    if found.kind == "float64" and _is_zero_or_one(found):
        found.kind = "int64"
    why = f"{ASK} the label: " + (
        "its name says so" if found in named else "it has two values; name another one if it is not"
    )
    if found.kind == "string":
        found.take("label", why, f"{ASK} codes: put the text that counts as 1 last")
        return found
    found.take("label", why)
    values = sorted(found.present.unique().to_list())
    if found.kind == "int64" and values == [0, 1]:
        found.keys["in"] = [0, 1]
    elif found.kind == "int64" and len(values) == _TWO:
        found.notes.append(f"{ASK} a binary label is 0 or 1: deliver it so")
    return found


def _is_zero_or_one(column: Suggested) -> bool:
    return column.kind in {"int64", "float64"} and sorted(column.present.unique().to_list()) == [0, 1]


def _decide(column: Suggested, columns: list[Suggested]) -> None:
    """The role of a column that is not the label."""
    present = column.present
    distinct = present.n_unique()
    taken = {one.role for one in columns}
    if not len(present):
        column.take("ignore", "no row has a value")
    elif column.kind in {"timestamp", "date"}:
        long = int(np.ptp(present.dt.epoch("d").to_numpy())) > _TWO
        asked = [f"{ASK} the time of a row? Its values are of several days"] if long else []
        column.take("ignore" if long or "time" in taken else "time", f"{present.min()!s} to {present.max()!s}", *asked)
    elif column.kind.startswith("list"):
        column.take("ignore", f"{ASK} lists: see docs/training.md, or leave it out")
    elif (
        _GROUP.search(column.name.lower())
        and _GROUP_ROWS[0] <= len(present) / distinct <= _GROUP_ROWS[1]
        and "group" not in taken
    ):
        _group(column)
    elif distinct == 1:
        column.take("ignore", f"always {present[0]}")
    elif distinct >= _UNIQUE * len(present) and column.kind != "float64":
        column.take("id", "no value repeats")
    elif column.kind in {"string", "bool"}:
        free = column.kind == "string" and distinct > _FREE_TEXT * len(present)
        column.take(
            "ignore" if free else "categorical", f"{distinct:,} values", *([f"{ASK} free text?"] if free else [])
        )
    elif column.kind == "int64" and (column.name.lower().endswith(("_id", "_code")) or distinct <= _TWO):
        column.take(
            "categorical", f"{distinct:,} values", *([f"{ASK} a category, or a number?"] if distinct > _TWO else [])
        )
    else:
        few = column.kind == "int64" and distinct <= _FEW_NUMBERS
        column.take(
            "numeric",
            f"{_show(present.min())} to {_show(present.max())}",
            *([f"{ASK} a number, or a category?"] if few else []),
        )


def _group(column: Suggested) -> None:
    """A column that may name the groups of a ranking."""
    present = column.present
    if len(present) < len(column.values):
        column.take("ignore", f"{ASK} is it a group? Then each row needs one")
    elif column.kind in {"int64", "string"}:
        each = len(present) / present.n_unique()
        column.take("group", f"{ASK} {each:.1f} rows for each value: rows that are ranked together, if they are")
    else:
        column.take("ignore", f"{ASK} is it a group? Then deliver whole numbers or text")


def _objective(label: Suggested | None, columns: list[Suggested]) -> str:
    if label is not None and (label.kind == "float64" or label.present.n_unique() > _TWO):
        return "regression"
    return "ranking" if any(column.role == "group" for column in columns) else "binary"


def _leaks(columns: list[Suggested], label: Suggested, objective: str) -> None:
    """Leave out what alone gives the label away."""
    codes = label.values.rank("dense") if label.kind in {"string", "bool"} else label.values
    labels = Labels(codes, objective)
    for column in columns:
        if column.role in _ROLES and not column.kind.startswith("list"):
            found = labels.predicted_by(column.values, Column(role=_ROLES[column.role], type=column.kind))
            if found is not None and found >= _LEAK:
                column.take(
                    "ignore", f"{ASK} alone it gives the label ({found:.2f} of 1): is it known before the label is?"
                )


def _rules(column: Suggested) -> None:
    """What the rows let expect of other days, with room to spare."""
    present, rows = column.present, len(column.values)
    if column.role not in {"numeric", "categorical", "label"}:
        return
    missing = 1 - len(present) / rows
    if column.role != "label":
        column.keys["max_null"] = f"{min(max(math.ceil(200 * missing), 1), 100)}%"
    if column.role == "numeric" and column.kind in {"int64", "float64"}:
        finite = present.filter(present.is_finite()) if present.dtype.is_float() else present
        low, high = (float(str(one)) if one is not None else 0.0 for one in (finite.min(), finite.max()))
        if low >= 0:
            column.keys["min"] = 0
        if low >= 0 and high <= 1 and column.kind == "float64":
            column.keys["max"] = 1
        elif 0 < high < _LARGEST:
            column.keys["max"] = _above(high)
            column.notes.append(f"{ASK} max: ten times the greatest one here")
    if column.role == "categorical" and column.kind == "string" and present.n_unique() <= _LISTED:
        column.keys["in"] = sorted(present.unique().to_list())
        column.notes.append(f"{ASK} in: all values, or only those of these rows?")


def _above(high: float) -> float:
    """Ten times a number, rounded up to one digit."""
    size = 10.0 ** math.floor(math.log10(10 * high))
    found = math.ceil(10 * high / size) * size
    return int(found) if found.is_integer() else found


def _show(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"
