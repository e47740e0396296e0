"""The snapshot's columns and their Arrow types.

A timestamp has no zone: values with a zone are converted to UTC, values without a zone stay unchanged.
"""

from typing import Any

import pyarrow as pa

from ratchet.contracts.columns import ColumnType

ARROW: dict[ColumnType, pa.DataType] = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us"),
    "date": pa.date32(),
    "list<int64>": pa.list_(pa.int64()),
    "list<string>": pa.list_(pa.string()),
    "list<float64>": pa.list_(pa.float64()),
}


def arrow_schema(columns: dict[str, ColumnType]) -> Any:
    """The schema of the snapshot's Parquet files."""
    return pa.schema([pa.field(name, ARROW[kind]) for name, kind in columns.items()])
