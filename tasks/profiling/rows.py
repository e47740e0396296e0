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

from ratchet.contracts.csv_format import CsvFormat
from ratchet.contracts.errors import ConfigurationError
from tasks.ingest import json_lines
from tasks.ingest.csv_form import WORDS, CsvForm, open_csv, recognise
from tasks.ingest.text_files import BEGIN, beginning, open_text

ROWS = 1_000_000
"""Rows that are looked at."""
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
            return _frame(_first(pq.ParquetFile(path).iter_batches(ROWS // 8))), None
        return (_frame(_json(path)), None) if json_lines.is_json(beginning(path), path.name) else _of_csv(path)
    except (OSError, pa.ArrowException, UnicodeDecodeError, json.JSONDecodeError) as error:
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


def _first(batches: Any) -> Any:
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
    return pa.Table.from_batches(found).slice(0, ROWS)


def _frame(table: Any) -> pl.DataFrame:
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
    return recognise(path, {}, CsvFormat.model_validate({"separator": separator}))


def _has_decimal_commas(rows: pl.DataFrame) -> bool:
    """Whether every value of a column is a number with a comma."""
    texts = [rows[name].drop_nulls() for name, kind in rows.schema.items() if kind == pl.String]
    return any(len(one) > 0 and bool(one.str.contains(_COMMA).all()) for one in texts)


def _csv(path: Path, form: CsvForm) -> Any:
    convert = pa.csv.ConvertOptions(null_values=["", *WORDS], strings_can_be_null=True, decimal_point=form.decimal)
    with open_text(path) as stream, open_csv(stream, form.separator, form.encoding, convert, BEGIN) as reader:
        return _first(reader)
