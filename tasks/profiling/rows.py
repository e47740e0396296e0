"""The rows of a data file as a table, with types that are read off the values: what a suggestion starts from."""

import codecs
import csv
import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.csv_format import CsvFormat
from ratchet.contracts.errors import ConfigurationError
from tasks.ingest import json_lines
from tasks.ingest.csv_form import WORDS, Ambiguous, CsvForm, open_csv, recognise
from tasks.ingest.text_files import BEGIN, beginning, open_text

ROWS = 1_000_000
"""Rows that are looked at."""
_AT_ONCE = 8_192
_SEPARATORS = (",", ";", "\t", "|")
_MAGIC = b"PAR1"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_COMMA = r"^-?\d+,\d+$"


def read_rows(path: Path) -> tuple[pl.DataFrame, CsvForm | None]:
    """The first rows of a file of Parquet, CSV or JSON lines, and of CSV how it is written.

    Raises ConfigurationError for a file that is none of these.
    """
    try:
        with path.open("rb") as file:
            parquet = file.read(len(_MAGIC)) == _MAGIC
        if parquet:
            with pq.ParquetFile(path) as file:
                return _frame(_first(file.iter_batches(_AT_ONCE), file.schema_arrow)), None
        return (_frame(_json(path)), None) if json_lines.is_json(beginning(path), path.name) else _of_csv(path)
    except (OSError, pa.ArrowException, UnicodeError, json.JSONDecodeError, Ambiguous) as error:
        raise ConfigurationError(
            f"{path}: cannot be read as Parquet, CSV or JSON lines: {str(error).splitlines()[0]}",
            remedy="name a file of one of these, of one day",
        ) from error


def _of_csv(path: Path) -> tuple[pl.DataFrame, CsvForm]:
    form = _form(path)
    rows = _frame(_csv(path, form))
    if form.separator != "," and _has_decimal_commas(rows):
        form = replace(form, decimal=",")
        rows = _frame(_csv(path, form))
    return rows, form


def _first(batches: Any, schema: Any) -> Any:
    """Batches as a table of about ROWS rows."""
    found: list[Any] = []
    try:
        for batch in batches:
            found.append(batch)
            if sum(one.num_rows for one in found) >= ROWS:
                break
    except pa.ArrowInvalid:  # types are read off the first rows, and a later one has another
        if not found:
            raise
    return pa.Table.from_batches(found, schema).slice(0, ROWS)


def _frame(table: Any) -> pl.DataFrame:
    names = table.column_names
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigurationError(f"two columns are called {twice}", remedy="give each column a name of its own")
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
        elif pa.types.is_decimal256(field.type):  # polars has no such numbers, nor has a snapshot
            table = table.set_column(place, field.name, pa.nulls(len(table), pa.binary()))
    found = pl.from_arrow(table)
    return found if isinstance(found, pl.DataFrame) else found.to_frame()


def _json(path: Path) -> Any:
    with open_text(path) as stream:
        return pa.json.read_json(stream).slice(0, ROWS)


def _form(path: Path) -> CsvForm:
    """How the file is written; its separator is the one that makes the most columns of its first line."""
    begin = beginning(path)
    text = begin.decode("utf-16" if begin.startswith(_UTF_16) else "utf-8", "replace").lstrip("\ufeff")
    line = next((one for one in text.splitlines() if one.strip()), "")
    fields = {one: len(next(csv.reader(StringIO(line), delimiter=one), [])) for one in _SEPARATORS}
    separator = max(fields, key=lambda one: fields[one])
    names: list[str] = next(csv.reader(StringIO(line), delimiter=separator), [])
    columns: dict[str, ColumnType] = dict.fromkeys(names, "string")
    return recognise(path, columns, CsvFormat.model_validate({"separator": separator}))


def _has_decimal_commas(rows: pl.DataFrame) -> bool:
    """Whether every value of a column is a number with a comma."""
    texts = [rows[name].drop_nulls() for name, kind in rows.schema.items() if kind == pl.String]
    return any(len(one) > 0 and bool(one.str.contains(_COMMA).all()) for one in texts)


def _csv(path: Path, form: CsvForm) -> Any:
    """The rows. A word for missing values is one in a number, and a value in a text, as ingest has it."""
    convert = pa.csv.ConvertOptions(null_values=["", *WORDS], strings_can_be_null=True, decimal_point=form.decimal)
    found = _converted(path, form, convert)
    texts = {field.name: pa.string() for field in found.schema if pa.types.is_string(field.type)}
    if not texts:
        return found
    plain = pa.csv.ConvertOptions(
        null_values=[""], strings_can_be_null=True, column_types=dict.fromkeys(found.column_names, pa.string())
    )
    again = _converted(path, form, plain)
    for name in texts:
        found = found.set_column(found.column_names.index(name), name, again.column(name).slice(0, len(found)))
    return found


def _converted(path: Path, form: CsvForm, convert: Any) -> Any:
    with open_text(path) as stream, open_csv(stream, form.separator, form.encoding, convert, BEGIN) as reader:
        return _first(reader, reader.schema)
