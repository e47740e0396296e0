"""Writes one Parquet file for a day. The same rows give the same bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.store.artifacts import sha256_file

ROW_GROUP = 131_072
_FEW_VALUES = 64
_FIRST = 1024
"""Rows that say how wide the rows are; a row group has no fewer."""


def rows_at_once(values: float) -> int:
    """The rows of a row group, or of a batch: fewer where rows have many values in lists.

    values: in all lists and vectors of a row, on average.
    """
    return ROW_GROUP if values <= _FEW_VALUES else max(int(ROW_GROUP * _FEW_VALUES / values), _FIRST)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFile:
    """A finished file."""

    path: Path
    sha256: str
    bytes: int
    rows: int


def write(batches: Iterable[Any], schema: Any, path: Path) -> DayFile:
    """Write record batches as row groups of a fixed size, whatever the size of the batches, and digest the file.

    The first rows say which size, see `rows_at_once`. Memory is bounded by about two row groups.
    """
    rows, held, size = 0, 0, 0
    waiting: list[Any] = []
    # Only text profits from dictionaries: without them numbers are smaller and written twice as fast.
    text = [name for field in schema for name in _text_columns(field)]
    # Without Arrow schema and pandas metadata the bytes depend only on rows and types.
    with pq.ParquetWriter(
        path, schema, compression="zstd", compression_level=1, store_schema=False, use_dictionary=text
    ) as writer:
        for batch in batches:
            rows += batch.num_rows
            held += batch.num_rows
            waiting.append(batch)
            if not size and held >= min(_FIRST, ROW_GROUP):
                size = rows_at_once(_values(pa.Table.from_batches(waiting, schema).slice(0, _FIRST)))
            while size and held >= size:
                table = pa.Table.from_batches(waiting, schema)
                _write_group(writer, table.slice(0, size))
                waiting = table.slice(size).to_batches()
                held -= size
        if held or not rows:
            _write_group(writer, pa.Table.from_batches(waiting, schema))
    return DayFile(path=path, sha256=sha256_file(path), bytes=path.stat().st_size, rows=rows)


def _text_columns(field: Any) -> list[str]:
    """The columns of text that a field has in Parquet."""
    if pa.types.is_list(field.type):
        return [f"{field.name}.list.element"] if pa.types.is_string(field.type.value_type) else []
    return [field.name] if pa.types.is_string(field.type) else []


def _values(table: Any) -> float:
    """The values in lists of a row, on average."""
    lists = [table.column(place) for place, field in enumerate(table.schema) if pa.types.is_list(field.type)]
    return sum(pc.sum(pc.list_value_length(column)).as_py() or 0 for column in lists) / max(len(table), 1)


def _write_group(writer: Any, table: Any) -> None:
    # In one chunk, because chunk borders would change the pages of the file.
    writer.write_table(table.combine_chunks(), row_group_size=ROW_GROUP)
