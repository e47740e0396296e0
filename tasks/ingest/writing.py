"""Writes one Parquet file for a day. The same rows give the same bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.store.artifacts import sha256_file

ROW_GROUP = 131_072


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFile:
    """A finished file."""

    path: Path
    sha256: str
    bytes: int
    rows: int


def write(batches: Iterable[Any], schema: Any, path: Path) -> DayFile:
    """Write record batches as row groups of a fixed size, whatever the size of the batches, and digest the file.

    Memory is bounded by about two row groups.
    """
    rows = 0
    waiting: list[Any] = []
    held = 0
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
            while held >= ROW_GROUP:
                table = pa.Table.from_batches(waiting, schema)
                _write_group(writer, table.slice(0, ROW_GROUP))
                waiting = table.slice(ROW_GROUP).to_batches()
                held -= ROW_GROUP
        if held or not rows:
            _write_group(writer, pa.Table.from_batches(waiting, schema))
    return DayFile(path=path, sha256=sha256_file(path), bytes=path.stat().st_size, rows=rows)


def _text_columns(field: Any) -> list[str]:
    """The columns of text that a field has in Parquet."""
    if pa.types.is_list(field.type):
        return [f"{field.name}.list.element"] if pa.types.is_string(field.type.value_type) else []
    return [field.name] if pa.types.is_string(field.type) else []


def _write_group(writer: Any, table: Any) -> None:
    # In one chunk, because chunk borders would change the pages of the file.
    writer.write_table(table.combine_chunks(), row_group_size=ROW_GROUP)
