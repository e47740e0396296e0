"""CSV files as record batches of the declared columns."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ratchet.contracts.columns import LISTS, ColumnType
from ratchet.contracts.csv_format import CsvFormat
from tasks.ingest.csv_form import WORDS, Ambiguous, CsvForm, first_rows, header, open_csv, recognise
from tasks.ingest.csv_remedies import header_remedy
from tasks.ingest.declared import rejection, require, to_snapshot
from tasks.ingest.schema import ARROW
from tasks.ingest.text_files import BEGIN, beginning, open_text
from tasks.ingest.traits import SourceTraits

_BLOCK = 8 << 20


def read_csv(
    path: Path,
    day: date,
    name: str,
    columns: dict[str, ColumnType],
    traits: SourceTraits,
    given: CsvFormat,
    codes: Mapping[str, Sequence[str]],
) -> Iterator[Any]:
    """CSV with a header; an empty field is missing, a quoted empty one is an empty string.

    given: what the pipeline file says of the form; see csv_form. codes: the texts of the columns that have codes.
    """
    try:
        form = recognise(path, columns, given)
    except Ambiguous as error:
        raise rejection(day, name, f"cannot be read as CSV: {error.cause}", remedy=error.remedy) from error
    present = header(path, form)
    require(present, day=day, name=name, columns=columns, remedy=header_remedy(present, beginning(path), given))
    traits.extra |= {*present} - {*columns}
    if form.said:
        traits.forms.add(form.said)
    types = _types(path, form, columns, traits)
    _note_zones(path, day, name, form, types, traits)
    for read in _batches(path, form, columns, types):
        batch = _without_words(read, codes, traits) if given.missing is None else read
        yield to_snapshot(batch, day, name, columns, traits, text=True)


def _without_words(batch: Any, codes: Mapping[str, Sequence[str]], traits: SourceTraits) -> Any:
    """A batch whose columns with codes have the usual words as missing values, unless a word is a code."""
    for name, texts in codes.items():
        values = batch.column(name)
        is_word = pc.is_in(values, pa.array([word for word in WORDS if word not in texts], pa.string()))
        if pc.any(is_word).as_py():
            traits.forms.add(f"{', '.join(sorted(values.filter(is_word).unique().to_pylist()))} missing in {name}")
            found = pc.if_else(is_word, pa.scalar(None, pa.string()), values)
            batch = batch.set_column(batch.schema.get_field_index(name), name, found)
    return batch


def _types(path: Path, form: CsvForm, columns: dict[str, ColumnType], traits: SourceTraits) -> dict[str, Any]:
    """The types to parse. A timestamp column has a zone, or dates alone, if its first rows have.

    A column of moments is text, so that no date between them is missed.
    """
    types = {column: pa.string() if kind in LISTS else ARROW[kind] for column, kind in columns.items()}
    times = [column for column, kind in columns.items() if kind == "timestamp"]
    if times:
        convert = pa.csv.ConvertOptions(include_columns=times, null_values=_no_times(form))
        with open_text(path) as stream, open_csv(stream, form.separator, form.encoding, convert, BEGIN) as reader:
            seen = {field.name: field.type for field in reader.schema}
        zoned = (column for column in times if pa.types.is_timestamp(seen[column]) and seen[column].tz)
        types |= dict.fromkeys(zoned, pa.timestamp("us", "UTC"))
        traits.dates |= {column for column in times if pa.types.is_date(seen[column])}
        types |= dict.fromkeys((column for column in times if column in traits.moments), pa.string())
    return types


def _no_times(form: CsvForm) -> list[str]:
    return [*pa.csv.ConvertOptions().null_values, *WORDS, *form.missing]


def _note_zones(path: Path, day: date, name: str, form: CsvForm, types: dict[str, Any], traits: SourceTraits) -> None:
    """Note the zones in the first rows of a CSV file: the parser returns all of them in UTC."""
    zoned: dict[str, ColumnType] = {
        column: "timestamp" for column, kind in types.items() if pa.types.is_timestamp(kind) and kind.tz
    }
    if not zoned:
        return
    for column, values in first_rows(path, form.separator, form.encoding, zoned).items():
        is_missing = pc.is_in(values, pa.array(_no_times(form)))
        traits.note(pc.if_else(is_missing, pa.scalar(None, pa.string()), values), column, day=day, name=name)


def _batches(path: Path, form: CsvForm, columns: dict[str, ColumnType], types: dict[str, Any]) -> Iterator[Any]:
    """Batches of the columns. Words that are missing values in some columns alone take a reader for these."""
    words = ["", *form.missing]
    text = [name for name, kind in columns.items() if kind == "string"]
    numbers = [name for name in columns if name not in text]
    parts = [(list(columns), words)] if form.in_text or not form.missing else [(numbers, words), (text, [""])]
    with ExitStack() as stack:
        readers = []
        for names, missing in parts:
            if not names:
                continue
            convert = pa.csv.ConvertOptions(
                column_types={name: types[name] for name in names},
                include_columns=names,
                null_values=missing,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                decimal_point=form.decimal,
            )
            stream = stack.enter_context(open_text(path))
            readers.append(stack.enter_context(open_csv(stream, form.separator, form.encoding, convert, _BLOCK)))
        for batches in zip(*readers, strict=True):  # of the same blocks, so of the same rows
            found = {name: batch.column(name) for batch in batches for name in batch.schema.names}
            yield pa.RecordBatch.from_arrays([found[name] for name in columns], names=list(columns))
