"""What a pipeline's features.py adds to its rows."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import pandas as pd
from pandas.api import types

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.made_columns import MadeColumn
from ratchet.model.made_columns import MadeDerive
from ratchet.runtime.user_code import attribute, blame, is_fault, load_module

FILE = "features.py"
_FITS: dict[ColumnType, tuple[Callable[[Any], bool], ...]] = {
    "int64": (types.is_integer_dtype,),
    "float64": (types.is_float_dtype, types.is_integer_dtype),
    "string": (types.is_string_dtype, types.is_object_dtype),
    "bool": (types.is_bool_dtype,),
    "timestamp": (types.is_datetime64_any_dtype,),
    "date": (types.is_datetime64_any_dtype, types.is_object_dtype),
}


@dataclass(frozen=True, slots=True)
class OwnDerive:
    """`derive` of a pipeline's features.py. function: guarded. path: of the file. line: where derive is defined."""

    function: Callable[[pd.DataFrame], pd.DataFrame]
    path: Path
    line: int | None

    @property
    def of_groups(self) -> bool:
        """Whether a value may depend on the rows of its group, in a ranking: nobody knows what the code does."""
        return True

    def __call__(self, df: pd.DataFrame) -> pd.DataFrame:
        """The rows with the columns that derive adds. Raises ConfigurationError with file and line."""
        return self.function(df)

    def place(self, column: str) -> str:
        """`file:line` of what makes a column, as far as the code names it; else of derive."""
        named = (node for node in ast.walk(ast.parse(self.path.read_bytes())) if _names(node, column))
        lines = [node.lineno for node in named if node.lineno >= (self.line or 0)]
        line = min(lines, default=self.line)
        return f"{self.path.name}:{line}" if line else self.path.name


def _names(node: ast.AST, column: str) -> TypeGuard[ast.expr | ast.keyword]:
    """Whether code gives a value to a column: `df["column"] = ...` or `assign(column=...)`."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=name), ctx=ast.Store()) | ast.keyword(arg=name):
            return name == column
    return False


Derive = OwnDerive | MadeDerive


def load_derive(folder: Path, derived: Mapping[str, ColumnType], made: Sequence[MadeColumn] = ()) -> Derive:
    """What adds the derived columns to rows: those that are made, and those of the pipeline's own `derive`.

    derived: all of them, and their types. made: those that the pipeline file itself makes; `derive` gets them too. It
    is guarded: it works on a copy, keeps rows and index, and makes what is declared. It is given a day's rows when
    features are made and any rows when a model scores, so it has to look at each row by itself. Without a features.py
    no other column is added. Raises ConfigurationError with file and line, when loaded and when called.
    """
    first = MadeDerive(tuple(made))
    own = {name: kind for name, kind in derived.items() if name not in {one.name for one in made}}
    then = _load_own(folder, own)
    return first if then is None else OwnDerive(lambda df: then(first(df)), then.path, then.line)


def _load_own(folder: Path, derived: Mapping[str, ColumnType]) -> OwnDerive | None:
    """The pipeline's own `derive`; None without a features.py."""
    module = load_module(folder, FILE)
    if module is None:
        if derived:
            raise ConfigurationError(
                f"columns.{next(iter(derived))}.derived: there is no {FILE} to make it",
                remedy=f"add {FILE} with derive(df) to the pipeline's folder, or take the column out",
            )
        return None
    function = attribute(module, "derive", FILE)

    def derive(df: pd.DataFrame) -> pd.DataFrame:
        try:
            made = function(df.copy())
        except BaseException as error:
            if not is_fault(error):
                raise
            where, _, cause = blame(error, folder, FILE).partition(": ")
            unknown = _unknown_column(error, df)
            if unknown is None:
                raise ConfigurationError(f"{where}: {cause}", remedy=f"correct derive in {FILE}") from error
            raise ConfigurationError(
                f"{where}: derive reads the column {unknown!r}, which its rows do not have; "
                f"allowed: {', '.join(map(str, df.columns))}",
                remedy="correct the name, or declare the column in pipeline.yaml and send it with the rows; "
                "derive never receives the label and the weight",
            ) from error
        return _checked(df, made, derived, defined)

    code = getattr(function, "__code__", None)
    defined = f"{FILE}:{code.co_firstlineno}" if code else FILE
    return OwnDerive(derive, folder / FILE, code.co_firstlineno if code else None)


def _unknown_column(error: BaseException, df: pd.DataFrame) -> str | None:
    """The column that code asked a data frame for in vain; None for any other error, also a KeyError of a dict."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    raised_by = trace.tb_frame.f_globals.get("__name__", "") if trace else ""
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    return key if isinstance(key, str) and raised_by.startswith("pandas.") and key not in df.columns else None


def _whole(values: pd.Series) -> bool:
    """Whether floats are whole numbers and missing values: pandas turns whole numbers beside missing ones to floats."""
    return types.is_float_dtype(values.dtype) and bool((values.dropna() % 1 == 0).all())


def _checked(before: pd.DataFrame, made: object, derived: Mapping[str, ColumnType], where: str) -> pd.DataFrame:
    if not isinstance(made, pd.DataFrame):
        raise ConfigurationError(f"{where}: derive returned {type(made).__name__}", remedy="return the data frame")
    if len(made) != len(before) or not made.index.equals(before.index):
        raise ConfigurationError(
            f"{where}: derive gave {len(made)} rows for {len(before)}, or another index",
            remedy="keep every row and the index: assign columns, and neither filter, merge nor sort",
        )
    for name, kind in derived.items():
        if name not in made.columns:
            raise ConfigurationError(
                f"{where}: derive does not make {name}, which pipeline.yaml declares as derived",
                remedy=f"assign df[{name!r}], or take the column out",
            )
        fits = any(fits(made[name].dtype) for fits in _FITS[kind]) or (kind == "int64" and _whole(made[name]))
        if not fits and made[name].notna().any():
            raise ConfigurationError(
                f"{where}: derive makes {name} as {made[name].dtype}, declared as {kind}",
                remedy=f"convert it, or declare columns.{name}.type as it is",
            )
    return made
