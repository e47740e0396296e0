"""Batches of a source as batches of the declared columns, and the refusal of a source that lacks one."""

from datetime import date
from typing import Any

import pyarrow as pa

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import DataRejected
from tasks.ingest.casting import LossyCast, cast
from tasks.ingest.schema import arrow_schema
from tasks.ingest.traits import SourceTraits


def rejection(day: date, name: str, what: str, *, remedy: str) -> DataRejected:
    """The error for a source that ingest refuses. name: of the file, the table or the query."""
    return DataRejected(f"{day}: {name}: {what}", remedy=remedy)


def require(
    present: list[str], *, day: date, name: str, columns: dict[str, ColumnType], remedy: str | None = None
) -> None:
    """Refuse a source that lacks a declared column, or has two of its name. remedy: what to do if one is missing."""
    if twice := [column for column in columns if present.count(column) > 1]:
        raise rejection(
            day,
            name,
            f"column {twice[0]} occurs {present.count(twice[0])} times",
            remedy=f"deliver {twice[0]} once",
        )
    missing = [column for column in columns if column not in present]
    if missing:
        listed = ", ".join(missing)
        many = "columns" if len(missing) > 1 else "column"
        raise rejection(
            day,
            name,
            f"{many} {listed} missing; the file has {', '.join(present) or 'none'}",
            remedy=remedy or f"deliver {listed}, or say in source.names.{missing[0]} what the source calls it",
        )


def to_snapshot(
    batch: Any, day: date, name: str, columns: dict[str, ColumnType], traits: SourceTraits, *, text: bool = False
) -> Any:
    """Cast a batch to the declared columns, in the declared order and types; notes which timestamps have a zone."""
    arrays = []
    for column, kind in columns.items():
        values = batch.column(column)
        if kind == "timestamp":
            traits.note(values, column, day=day, name=name)
        try:
            arrays.append(cast(values, kind, text=text))
        except LossyCast as error:
            raise rejection(
                day,
                name,
                f"column {column} is {_type_name(values.type)}, declared {kind}: {error.why}",
                remedy=f"correct the source, or change columns.{column}.type",
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def _type_name(found: Any) -> str:
    """Arrow has several kinds of text, which are one to people."""
    return str(found).replace("large_string", "string").replace("string_view", "string")
