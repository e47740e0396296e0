"""How a CSV file is written: separator, encoding, decimal mark and words for missing values, from its first rows.

What the pipeline file sets is not guessed. A file that can be read with commas, as UTF-8, with decimal points and empty
fields is read so; anything else is looked for where that cannot be. The same file always has the same form.

A change here violates the promise of the project when a file that was read before comes out otherwise under the same
version of rows, or when a guess is made of a file that another guess would fit as well.
"""

import codecs
import csv
import re
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ratchet.contracts.columns import ColumnType
from ratchet.contracts.csv_format import CsvFormat, Separator
from tasks.ingest.text_files import BEGIN, beginning, open_text

WORDS = ("NA", "N/A", "null", "NULL", r"\N", "-")
"""Of missing numbers, times, truths and lists. In text each of them is a value."""
_NAMES = {";": "';'", "\t": "tab", "|": "'|'"}
_POINT = r"^\s*[-+]?\d*\.\d"
_COMMA = r"^\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*$"
_THOUSANDS = r"^\s*[-+]?\d{1,3}(,\d{3})+\s*$"
_BOTH = r"\d\.\d+,|\d,\d+\.\d"
_LETTERS = rb"\xc0-\xd6\xd8-\xf6\xf8-\xff\x8a\x8c\x8e\x9a\x9c\x9e\x9f"
_IN_WORDS = rb"\xaa\xba\xb7\xb4\x91\x92\x96\x97"
_ANOTHER_PAGE = re.compile(
    rb"[\x00\x81\x8d\x8f\x90\x9d]|[%(letters)b]{3}|[A-Za-z%(letters)b][^\x00-\x7f%(letters)b%(in_words)b][a-z%(letters)b]"
    rb"|[\x86-\x89\x98\xa2-\xa6\xa8\xac\xaf\xb1-\xb3\xb8\xb9\xbc-\xbe\xd7\xf7][a-z\xe0-\xff]|[a-z\xe0-\xff][\x8a\x8c\x8e\x9f]"
    % {b"letters": _LETTERS, b"in_words": _IN_WORDS}
)
"""Bytes that cp1252 has not; what it makes of other alphabets; signs in words, and capitals behind small letters."""
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")


class Ambiguous(Exception):
    """A file that can be read in several ways. cause: why. remedy: what to set."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.cause, self.remedy = cause, remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvForm:
    """missing: words of missing values, beside the empty field. in_text: whether they are missing in text, too."""

    separator: str
    encoding: str
    decimal: str
    missing: tuple[str, ...]
    in_text: bool

    @property
    def said(self) -> str:
        """What is unusual, for a person; empty if nothing is."""
        parts = [
            f"separator {_NAMES[self.separator]}" if self.separator != "," else "",
            f"encoding {self.encoding}" if self.encoding != "utf-8" else "",
            "decimal comma" if self.decimal == "," else "",
            f"{', '.join(self.missing)} as missing values{'' if self.in_text else ', except in text'}"
            if self.missing
            else "",
        ]
        return ", ".join(part for part in parts if part)


def recognise(path: Path, columns: dict[str, ColumnType], given: CsvFormat) -> CsvForm:
    """The form of a file. Raises Ambiguous, and Arrow's errors for a file that is no CSV."""
    begin = beginning(path)
    encoding = _marked(given.encoding, begin) if given.encoding else _encoding(begin)
    separator = given.separator or _separator(begin.decode(encoding, errors="replace"), columns)
    if encoding == "cp1252" and not given.encoding and separator == "," and _is_utf8(path, columns):
        encoding = "utf-8"  # what is not UTF-8 is in columns that nobody reads
    rows = first_rows(path, separator, encoding, columns)
    floats = [rows[name] for name, kind in columns.items() if kind == "float64" and name in rows]
    decimal = given.decimal or _decimal(floats)
    others = [values for name, values in rows.items() if columns[name] != "string"]
    words = any(pc.any(pc.is_in(pc.utf8_trim_whitespace(one), pa.array(WORDS))).as_py() for one in others)
    missing = given.missing if given.missing is not None else WORDS if words else ()
    return CsvForm(
        separator=separator,
        encoding=encoding,
        decimal=decimal,
        missing=missing,
        in_text=given.missing is not None,
    )


def first_rows(path: Path, separator: str, encoding: str, columns: dict[str, ColumnType]) -> dict[str, Any]:
    """The text of the declared columns in the first rows; without those that the file has not, or twice."""
    names, rows = _first_batch(path, separator, encoding, columns)
    once = [name for name in columns if names.count(name) == 1]
    return {name: pc.cast(rows.column(name), pa.string()) for name in once}


def header(path: Path, form: CsvForm) -> list[str]:
    """The names in the first line."""
    return _first_batch(path, form.separator, form.encoding, {})[0]


def _first_batch(path: Path, separator: str, encoding: str, columns: dict[str, ColumnType]) -> tuple[list[str], Any]:
    convert = pa.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.binary()))
    with open_text(path) as stream, open_csv(stream, separator, encoding, convert, BEGIN) as reader:
        names: list[str] = reader.schema.names
        rows = next(iter(reader), None)
        if rows is None:
            rows = pa.RecordBatch.from_arrays([pa.nulls(0, pa.binary()) for _ in names], names=names)
    return names, rows


def open_csv(stream: Any, separator: str, encoding: str, convert: Any, block: int) -> Any:
    """A reader of record batches. block: bytes of the file for a batch, and at most for a row."""
    return pa.csv.open_csv(
        stream,
        convert_options=convert,
        parse_options=pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        read_options=pa.csv.ReadOptions(block_size=block, use_threads=False, encoding=encoding),
    )


def _marked(encoding: str, begin: bytes) -> str:
    """An encoding that is set; UTF-16 without its mark by the side on which its first sign has a zero."""
    if encoding != "utf-16" or begin.startswith(_UTF16_MARKS):
        return encoding
    return "utf-16-be" if begin.startswith(b"\0") else "utf-16-le"


def _encoding(begin: bytes) -> str:
    if begin.startswith(_UTF16_MARKS):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin, final=len(begin) < BEGIN)
    except UnicodeDecodeError:
        return "cp1252" if _is_western(begin) else "utf-8"
    return "utf-8"


def _is_western(begin: bytes) -> bool:
    """Whether bytes that are not UTF-8 are text of a language that cp1252 was made for."""
    return not (_UTF8.search(begin) or _ANOTHER_PAGE.search(begin))


def _is_utf8(path: Path, columns: dict[str, ColumnType]) -> bool:
    """Whether the header and the declared columns can be read as UTF-8, with commas."""
    try:
        first_rows(path, ",", "utf-8", columns)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return False
    return True


def _separator(begin: str, columns: dict[str, ColumnType]) -> str:
    """The separator by which the header has most of the declared columns; the comma if it is one of several."""
    line = next((line for line in begin.lstrip("\ufeff").splitlines() if line.strip()), "")

    def found(separator: str) -> int:
        try:
            names = next(csv.reader(StringIO(line), delimiter=separator, strict=True), [])
        except csv.Error:
            return 0
        return len({*names} & {*columns})

    separators: tuple[str, ...] = get_args(Separator)
    return max(separators, key=found)


def _decimal(columns: list[Any]) -> str:
    """The mark in the numbers of the first rows."""

    def having(pattern: str) -> int:
        return sum(pc.sum(pc.match_substring_regex(values, pattern)).as_py() or 0 for values in columns)

    commas, points = having(_COMMA), having(_POINT)
    grouped = having(_THOUSANDS)
    if having(_BOTH) or ((grouped or commas) and points):
        raise Ambiguous("its numbers have points and commas", "write them without marks between the thousands")
    if grouped and commas <= grouped:
        raise Ambiguous(
            "the commas in its numbers may be decimal commas, or stand between the thousands",
            'set source.csv.decimal to "," if they are decimal commas; otherwise write the numbers without them',
        )
    return "," if commas else "."
