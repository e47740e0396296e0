"""The declared columns as the source has them, and its batches under the declared names."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.errors import DataRejected
from ratchet.contracts.source import Source
from tasks.ingest.declared import rejection
from tasks.ingest.schema import ARROW


@contextmanager
def own_keys(source: Source, columns: Mapping[str, ColumnType]) -> Iterator[None]:
    """Let the remedy of an error about a column of the source name the keys of the pipeline file that are about it.

    The time of a further source is no column of the pipeline: its own name, with a dot, is the key that names it.
    """
    try:
        yield
    except DataRejected as error:
        for name in columns:
            own = source.names.get(name, name)
            absent, kind = f"say in source.names.{own} what the source calls it", f"change columns.{own}.type"
            if "." in name:
                error.remedy = error.remedy.replace(absent, f"correct joins.{name.partition('.')[0]}.time")
                error.remedy = error.remedy.replace(f"correct the source, or {kind}", f"deliver {own} as a timestamp")
            elif own != name:
                error.remedy = error.remedy.replace(absent, f"correct source.names.{name}")
                error.remedy = error.remedy.replace(kind, f"change columns.{name}.type")
        raise


def in_source(source: Source, columns: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """The columns to read from the source: their names and types there."""
    return {source.names.get(name, name): "string" if name in source.codes else kind for name, kind in columns.items()}


def as_declared(source: Source, batches: Iterable[Any], columns: Mapping[str, ColumnType], day: date) -> Iterator[Any]:
    """Batches of `in_source` as batches of the declared columns. Raises DataRejected for a text that has no code."""
    if not (source.names or source.codes):
        yield from batches
        return
    for batch in batches:
        arrays = [
            _coded(source, name, values, day) if name in source.codes else values
            for name, values in zip(columns, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _coded(source: Source, name: str, values: Any, day: date) -> Any:
    texts = pa.array(source.codes[name], pa.string())
    found = pc.index_in(values, texts)
    unknown = values.filter(pc.and_(pc.is_valid(values), pc.is_null(found)))
    if len(unknown):
        written = source.names.get(name, name)
        missing = "; a word for a missing value in CSV into source.csv.missing" if source.kind == "files" else ""
        raise rejection(
            day,
            f"column {written}",
            f"{unknown[0].as_py()!r} is none of source.codes.{name}: {', '.join(map(repr, source.codes[name]))}",
            remedy=f"correct the source, or add the text to source.codes.{name}{missing}",
        )
    return pc.cast(found, ARROW["int64"])
