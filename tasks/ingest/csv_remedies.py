"""What to do about a CSV file that cannot be read: the remedy names the key, or the value."""

import re
from collections.abc import Sequence

from ratchet.contracts.csv_format import CsvFormat

_SEPARATORS = {";": "a semicolon", "\t": "a tab", "|": "a bar"}
_DATA = re.compile(r"[-+]?\d[\d.:T/ -]*")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_DECIMAL_POINT = re.compile(r"[-+]?\d+\.\d+")
_AGAIN = "deliver the file again"
_COMPRESSED = (b"PK\x03\x04", b"\xfd7zXZ")
"""How files of zip and xz begin."""
_COMPRESSED_REMEDY = "deliver the file as gzip, bz2, zstd or lz4, or uncompressed"
_ENCODING_REMEDY = "set source.csv.encoding: the text of the file is not what its first rows seem to be"
_REMEDIES = {
    "zone offset": "deliver every timestamp of the column with a zone, or every one without; its first rows decide",
    "UTF8": _ENCODING_REMEDY,
    "codec can't decode": _ENCODING_REMEDY,
    "straddling": "close each quote, and deliver rows of at most 8 MiB: a quote that stays open makes one long row",
}
_NUL_REMEDY = "set source.csv.encoding: utf-16, if the file is UTF-16; it begins without the mark of it"


def header_remedy(present: Sequence[str], begin: bytes, given: CsvFormat) -> str | None:
    """The remedy for a header that lacks declared columns, if it shows what is wrong. begin, given: see `remedy_of`."""
    if remedy := _remedy_of_begin(begin, given):
        return remedy
    if len(present) == 1 and (found := next((one for one in _SEPARATORS if one in present[0]), None)):
        return f"name the columns as in the pipeline file; the separator seems to be {_SEPARATORS[found]}"
    if any(_DATA.fullmatch(name) for name in present):
        return "deliver the file with a header: its first line seems to be a row"
    return None


def remedy_of(message: str, begin: bytes, given: CsvFormat) -> str:
    """The remedy for an error of the CSV reader. message: its text. begin: the first bytes of the file, unpacked.

    given: what the pipeline file says of CSV files.
    """
    if begun := _remedy_of_begin(begin, given):
        return begun
    for word, remedy in _REMEDIES.items():
        if word in message:
            return remedy
    if found := re.search(r"invalid value '(.*)'", message):
        return _value_remedy(found[1])
    found = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if found and int(found[2]) > int(found[1]):
        return "put each field that contains the separator in quotes, and decimals with a comma, too"
    return _AGAIN


def _remedy_of_begin(begin: bytes, given: CsvFormat) -> str | None:
    if begin.startswith(_COMPRESSED):
        return _COMPRESSED_REMEDY
    known = given.encoding == "utf-16" or begin.startswith((b"\xff\xfe", b"\xfe\xff"))
    return _NUL_REMEDY if b"\0" in begin[:64] and not known else None


def _value_remedy(value: str) -> str:
    if _DECIMAL_COMMA.fullmatch(value) or _DECIMAL_POINT.fullmatch(value):
        return (
            f"write all numbers with one decimal mark, or set source.csv.decimal; its first rows have none as {value}"
        )
    return f"correct the value {value!r}; if it means a missing value, add it to source.csv.missing"
