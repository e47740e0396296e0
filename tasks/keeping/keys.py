"""The column of a key and its values: as the pipeline file says now, as it said before, and as each table has them."""

import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ratchet.contracts.columns import LISTS, ColumnType
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.further_source import further
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.removal import Removal, common_form, value_digest
from ratchet.runs.data_days import newest_plan, plans
from ratchet.runtime.held_days import table_of
from ratchet.store.base import Store
from tasks.ingest.purged_rows import as_read, hits, searched
from tasks.ingest.schema import ARROW
from tasks.keeping.files import FoundDay, TableFile, opened


class KeyColumn(NamedTuple):
    """source: its name in the source; empty where that is the same. codes: of its texts."""

    name: str
    type: ColumnType
    source: str
    codes: tuple[str, ...]


class Keys(NamedTuple):
    """The values of keys as texts; none where a purge goes on without them. codes: what the source has for them."""

    texts: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()


def key_column(store: Store, pipeline: str, name: str) -> KeyColumn:
    """The column by its name in the newest plan that has it. Raises ConfigurationError where none has."""
    newest = newest_plan(store, pipeline).spec
    spec = newest if name in newest.source_columns else _older(store, pipeline, name)
    if spec is None:
        raise ConfigurationError(
            f"--column {name!r} is no column of {pipeline}, and never was; it has {', '.join(newest.source_columns)}",
            remedy="name the column as the pipeline file does, or did",
        )
    kind = spec.source_columns[name]
    if kind in LISTS:
        raise ConfigurationError(
            f"--column {name!r} holds lists ({kind})", remedy="name a column with one value in a row"
        )
    if name in spec.joined_columns:
        own = ", ".join(one for one in spec.source_columns if one not in spec.joined_columns)
        raise ConfigurationError(
            f"--column {name!r} is joined from joins.{spec.joined_columns[name]}: other rows would be joined to the "
            "same key, so a purge by it would not last",
            remedy=f"purge by a key of the main source, such as a column of `on`; it has {own}",
        )
    return KeyColumn(name, kind, spec.source.names.get(name, ""), tuple(spec.source.codes.get(name, ())))


def _older(store: Store, pipeline: str, name: str) -> PipelineSpec | None:
    return next((plan.spec for plan in plans(store, pipeline) if name in plan.spec.source_columns), None)


def as_texts(values: Iterable[str], kind: ColumnType) -> tuple[str, ...]:
    """The values as a column has them, as text. The messages do not repeat them."""
    try:
        found = pa.array(list(values), pa.string()).cast(ARROW[kind]).cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, UnicodeEncodeError):
        raise ConfigurationError(f"a value is no {kind}", remedy="give the values as the column has them") from None
    if not found or not all(found):
        raise ConfigurationError("no value, or an empty one", remedy="name the value of each key with --value")
    return tuple(dict.fromkeys(found))


def code_texts(column: KeyColumn, texts: Iterable[str]) -> tuple[str, ...]:
    """What the source has in the place of these values of a column of codes."""
    if not column.codes:
        return ()
    try:
        return tuple(column.codes[_index(text)] for text in texts)
    except IndexError:
        raise ConfigurationError(
            f"a value is none of the {len(column.codes)} codes of {column.name}", remedy="give numbers of codes"
        ) from None


def _index(text: str) -> int:
    if (code := int(text)) < 0:
        raise IndexError
    return code


def salted(removal: Removal, column: KeyColumn, texts: Sequence[str]) -> Removal:
    """A purge of these values, with digests in their place."""
    salt = secrets.token_hex(16)

    def digests(of: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({value_digest(salt, one) for one in of}))

    change = {
        "salt": salt,
        "values": digests(texts),
        "forms": () if column.codes else digests(map(common_form, texts)),
        "texts": digests(code_texts(column, texts)),
    }
    return removal.model_copy(update={**change, "column": column.name, "type": column.type, "source": column.source})


def is_same(removal: Removal, column: KeyColumn, values: Sequence[str]) -> bool:
    """Whether a record is of the purge of these values; its column may have another type now."""
    if removal.kind != "purge" or removal.type is None or removal.column != column.name:
        return False
    try:
        texts = as_texts(values, removal.type)
        coded = code_texts(column, texts) if removal.texts else ()
    except ConfigurationError:
        return False
    digests = {value_digest(removal.salt, text) for text in texts}
    return {*removal.values} == digests and {*removal.texts} == {value_digest(removal.salt, text) for text in coded}


def in_tables(store: Store, pipeline: str, removal: Removal, files: Iterable[TableFile]) -> dict[str, list[Removal]]:
    """The purge as it is of each table: under the name that the table has for the column, and of the same codes."""
    wanted = {file.table for file in files}
    found: dict[str, list[Removal]] = {}
    for plan in plans(store, pipeline):
        if wanted <= found.keys():
            break
        own = plan.spec
        found.setdefault(table_of(own), as_read(own.source, own.source_columns, [removal])[0])
        for name in own.joins:
            spec = further(own, name)
            known = [removal.model_copy(update={"source": ""})] if removal.column in spec.source_columns else []
            found.setdefault(table_of(spec), as_read(spec.source, spec.source_columns, known)[0])
    return {table: found.get(table, [removal]) for table in wanted}


def texts_in(
    store: Store, found: Iterable[FoundDay], purges: dict[str, list[Removal]], folder: Path
) -> tuple[str, ...]:
    """The values of the key in the files that have it, as they are there."""
    texts: set[str] = set()
    for one in found:
        of_table = purges[one.file.table]
        with opened(store, one.file, folder) as path, pq.ParquetFile(path) as file:
            names = sorted(searched(file.schema_arrow, of_table))
            for batch in file.iter_batches(columns=names):
                rows = batch.filter(hits(batch, of_table))
                for name in names:
                    texts.update(text.as_py() for text in pc.unique(pc.cast(rows.column(name), pa.string())))
    return tuple(sorted(text for text in texts if text is not None))


def unmatched(removal: Removal, keys: Keys, there: Iterable[str]) -> int:
    """How many keys have no row: a wrong column, a blank or a typing error shows here. there: what `texts_in` says."""
    if not keys.texts:
        return len({*removal.values} - {value_digest(removal.salt, text) for text in there})
    known = {common_form(text) for text in there}
    return sum(common_form(text) not in known for text in keys.texts)
