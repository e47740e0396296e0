"""Rows of the snapshot as a data frame: the same types whether or not a day has missing values."""

from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts.columns import Column

_AS_FLOAT = frozenset({"numeric", "label", "weight"})  # roles whose values are computed with


def read_rows(path: Path, columns: Mapping[str, Column]) -> pd.DataFrame:
    """A day's rows, in the file's order, with the declared columns that come from the source. See `frame`."""
    names = [name for name, column in columns.items() if not column.derived]
    with pq.ParquetFile(path) as file:  # read by itself, since a folder's name would be taken for a column
        table = file.read(names)
    return frame(table, columns, {name for name in names if table.column(name).null_count})


def frame(table: "pa.Table", columns: Mapping[str, Column], missing: Collection[str]) -> pd.DataFrame:
    """Rows of a day as a data frame. missing: the columns that have a missing value anywhere in the day.

    Integers with missing values are float64 where they are computed with, and nullable Int64 (exact) elsewhere;
    booleans with missing values are nullable; dates are timestamps at midnight.
    """
    names = [name for name, column in columns.items() if not column.derived and name in table.column_names]
    return pd.DataFrame(
        {name: series(table.column(name), columns[name], missing=name in missing) for name in names}, copy=False
    )


def series(values: "pa.ChunkedArray", column: Column, *, missing: bool) -> pd.Series:
    """One column of `frame`. missing: whether a value of the day is missing, also if none of these is."""
    nullable: dict[pa.DataType, object] = {}
    if missing:
        nullable[pa.bool_()] = pd.BooleanDtype()
        if column.role not in _AS_FLOAT:
            nullable[pa.int64()] = pd.Int64Dtype()
        elif pa.types.is_int64(values.type):
            values = values.cast(pa.float64(), safe=False)
    found: pd.Series = values.to_pandas(types_mapper=nullable.get, date_as_object=False)
    return found
