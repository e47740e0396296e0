"""The rows of purged keys, left out of every read of the source and of every file of the snapshot.

A change here violates the promise of the project when a row of a purged key is in a file that ingest publishes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.contracts.columns import LISTS, ColumnType
from ratchet.contracts.removal import Removal, common_form, value_digest
from ratchet.contracts.source import Source
from ratchet.store.base import Store
from ratchet.store.removals import removals
from tasks.ingest.schema import ARROW
from tasks.ingest.writing import ROW_GROUP, DayFile, write


def purges_of(store: Store, pipeline: str) -> tuple[Removal, ...]:
    """The purges that each read of a pipeline's source applies."""
    return tuple(one for one in removals(store, pipeline) if one.kind == "purge")


def with_keys(columns: Mapping[str, ColumnType], purges: Iterable[Removal]) -> dict[str, ColumnType]:
    """The columns to read: also those by which purged rows are found."""
    keys = {one.column: one.type for one in purges if one.type is not None and one.column not in columns}
    return {**columns, **keys}


def as_read(
    source: Source, columns: Mapping[str, ColumnType], purges: Iterable[Removal]
) -> tuple[list[Removal], list[str]]:
    """The purges as they are of the columns of a read: their names there, and the codes there. columns: to read.

    A column of a key is known by its name in the source, and by the name that it was declared with. One that is not
    declared any more has its name in the source. Second: columns of keys by which nothing can be found.
    """
    found, lost, of_source = [], [], {source.names.get(name, name): name for name in columns}
    for one in purges:
        own = one.source or one.column
        names = {of_source[own]} if own in of_source else set()
        names |= {one.column} & columns.keys()
        if not names and own not in columns:
            names = {own}
        usable = sorted(name for name in names if columns.get(name) not in LISTS)
        lost += [] if usable else [own]
        found += [_coded(one.model_copy(update={"column": name}), source.codes.get(name)) for name in usable]
    return found, lost


def _coded(purge: Removal, codes: Sequence[str] | None) -> Removal:
    """A purge of a column that is read by these codes; None: by none. It is of the text, whatever its code."""
    texts = purge.texts or purge.values
    if codes:
        numbers = [f"{code}" for code, text in enumerate(codes) if value_digest(purge.salt, text) in texts]
        values = tuple(value_digest(purge.salt, number) for number in numbers)
        return purge.model_copy(update={"type": "int64", "values": values, "forms": ()})
    return purge.model_copy(update={"type": "string", "values": texts, "forms": ()}) if purge.texts else purge


def is_of(column: Any, purges: Iterable[Removal]) -> Any:
    """Which values of a column of text, numbers or times are purged: an array of bool; a missing value is not."""
    # A whole array has one dictionary, in which each value is once.
    kind = column.type
    encoded = pc.cast(column, pa.string()).dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    known = [
        (one.salt, {*one.values}, {*one.forms} if one.type and kind != ARROW[one.type] else frozenset())
        for one in purges
    ]
    hits = [
        any(
            value_digest(salt, text) in values or (forms and value_digest(salt, common_form(text)) in forms)
            for salt, values, forms in known
        )
        for text in texts
    ]
    return pc.fill_null(pc.take(pa.array([*hits], pa.bool_()), encoded.indices), fill_value=False)


def hits(batch: Any, purges: Sequence[Removal]) -> Any:
    """Which rows of a batch are purged; of columns that it does not have, or of lists, none are."""
    found = pa.array([False] * batch.num_rows, pa.bool_())
    for name in sorted(searched(batch.schema, purges)):
        found = pc.or_(found, is_of(batch.column(name), [one for one in purges if one.column == name]))
    return found


def searched(schema: Any, purges: Iterable[Removal]) -> set[str]:
    """The columns of a file in which the keys are looked for."""
    names = {one.column for one in purges} & {*schema.names}
    return {name for name in names if not pa.types.is_nested(schema.field(name).type)}


def rest(path: Path, schema: Any, purges: Sequence[Removal], target: Path) -> DayFile:
    """Write a file's rows without those that are purged, with the columns of the schema."""
    with pq.ParquetFile(path) as file:
        return write(_kept(file.iter_batches(ROW_GROUP), schema, purges), schema, target)


def _kept(batches: Iterable[Any], schema: Any, purges: Sequence[Removal]) -> Iterator[Any]:
    for batch in batches:
        kept = batch.filter(pc.invert(hits(batch, purges)))
        yield kept.select(schema.names).cast(schema)


def count_hits(path: Path, purges: Sequence[Removal]) -> int:
    """The rows of a file that are purged. Reads only the columns of the keys."""
    with pq.ParquetFile(path) as file:
        names = sorted(searched(file.schema_arrow, purges))
        batches = file.iter_batches(ROW_GROUP, columns=names) if names else ()
        return sum(pc.sum(hits(batch, purges)).as_py() or 0 for batch in batches)
