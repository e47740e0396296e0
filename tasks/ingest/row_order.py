"""One order for the rows of a query, which a database returns in any order.

The rows are sorted by all columns, in the order of the pipeline file, missing values last. Rows that are equal in all
columns are the same bytes. So a day has the same file, whatever the database returns first.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tasks.ingest.writing import ROW_GROUP

SORT_MEMORY = 256 << 20
"""Bytes that a sort holds in memory. What does not fit goes to the disk."""


def in_order(batches: Iterable[Any], schema: Any, folder: Path) -> Iterator[Any]:
    """Sort record batches of a schema. folder: for the part that does not fit into SORT_MEMORY; it may not exist."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{SORT_MEMORY >> 20}MiB",
        "temp_directory": str(folder),
        "threads": 1,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    with duckdb.connect(":memory:", config=settings) as sorter:
        sorter.execute("set enable_progress_bar = false")  # it would print among the lines of the log
        # DuckDB takes `a` and `A` for one name.
        places = [f"c{place}" for place in range(len(schema))]
        sorter.register("batch", pa.Table.from_batches([], schema).rename_columns(places))
        sorter.execute("create table day as select * from batch")
        for batch in batches:
            sorter.register("batch", batch.rename_columns(places))
            sorter.execute("insert into day select * from batch")
        sorter.unregister("batch")
        for batch in sorter.sql("select * from day").order(_order(schema)).to_arrow_reader(ROW_GROUP):
            yield batch.rename_columns(schema.names).cast(schema)


def _order(schema: Any) -> str:
    """All columns; then the signs of floats, since 0.0 and -0.0 are equal and not the same bytes."""
    names = [(f"c{place}", field.type) for place, field in enumerate(schema)]
    signs = [f"signbit({name})" for name, kind in names if pa.types.is_floating(kind)]
    floats = [name for name, kind in names if pa.types.is_list(kind) and pa.types.is_floating(kind.value_type)]
    signs += [f"list_transform({name}, lambda value: signbit(value))" for name in floats]
    return ", ".join([f"{name} asc nulls last" for name, _ in names] + signs)
