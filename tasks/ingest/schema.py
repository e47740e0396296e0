"""The snapshot's columns: what is taken from the source, in which Arrow types.

A timestamp has no zone: values with one are converted to UTC, values without one stay as the source has them.
"""

from typing import Any

import pyarrow as pa

from tasks.contracts.columns import ColumnType
from tasks.contracts.errors import ConfigurationError
from tasks.contracts.pipeline import PipelineSpec

PARTITION = "date"

ARROW: dict[ColumnType, pa.DataType] = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us"),
    "date": pa.date32(),
}


def taken(spec: PipelineSpec) -> dict[str, ColumnType]:
    """The columns that come from the source, in the file's order. Raises ConfigurationError for a reserved name."""
    columns = {name: column.type for name, column in spec.columns.items() if not column.derived}
    if PARTITION in columns:
        raise ConfigurationError(
            f"columns.{PARTITION}: the name is taken by the snapshot's day",
            remedy=f"give the column another name, or leave it out: every row's day is known as {PARTITION} anyway",
        )
    return columns


def arrow_schema(columns: dict[str, ColumnType]) -> Any:
    """The schema of the snapshot's Parquet files."""
    return pa.schema([pa.field(name, ARROW[kind]) for name, kind in columns.items()])
