"""What to do about a CSV file that cannot be read: the remedy names the separator, the encoding or the value."""

import re
from collections.abc import Sequence

_SEPARATORS = {";": "a semicolon", "\t": "a tab", "|": "a bar"}
_DATA = re.compile(r"[-+]?\d[\d.:T/ -]*")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_AGAIN = "deliver the file again"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"PK\x03\x04", b"\xfd7zXZ")
"""How files of gzip, bz2, zstd, lz4, zip and xz begin."""
_COMPRESSED_REMEDY = (
    "deliver the file as gzip, bz2, zstd or lz4 with the ending .gz, .bz2, .zst or .lz4, or uncompressed"
)
_REMEDIES = {
    "zone offset": "deliver every timestamp of the column with a zone, or every one without; its first rows decide",
    "UTF8": "deliver the file in UTF-8: it seems to have another encoding, such as Latin-1",
}
_UTF16_REMEDY = "deliver the file in UTF-8: its encoding seems to be UTF-16"


def header_remedy(present: Sequence[str], begin: bytes) -> str | None:
    """The remedy for a header that lacks declared columns, if it shows what is wrong. begin: as in `remedy_of`."""
    if remedy := _remedy_of_begin(begin):
        return remedy
    if len(present) == 1 and (remedy := _separator_remedy(present[0])):
        return remedy
    if any(_DATA.fullmatch(name) for name in present):
        return "deliver the file with a header: its first line seems to be a row"
    return None


def remedy_of(message: str, begin: bytes) -> str:
    """The remedy for an error of the CSV reader. message: its text. begin: the first bytes of the file, unpacked."""
    if begun := _remedy_of_begin(begin):
        return begun
    for word, remedy in _REMEDIES.items():
        if word in message:
            return remedy
    if found := re.search(r"invalid value '(.*)'", message):
        return _value_remedy(found[1])
    found = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if found and int(found[1]) == 1 and (other := _separator_remedy(message)):  # its commas are those of decimals
        return other
    if found and int(found[2]) > int(found[1]):
        return "put each field that contains a comma in quotes, and write decimals with a point"
    return _AGAIN


def _remedy_of_begin(begin: bytes) -> str | None:
    if begin.startswith(_UTF16):
        return _UTF16_REMEDY
    return _COMPRESSED_REMEDY if begin.startswith(_COMPRESSED) else None


def _separator_remedy(line: str) -> str | None:
    """The remedy for a line that should be one field, if another separator is in it."""
    for separator, words in _SEPARATORS.items():
        if separator in line:
            return f"deliver the file with commas between the fields: its separator seems to be {words}"
    return None


def _value_remedy(value: str) -> str:
    if _DECIMAL_COMMA.fullmatch(value):
        return f"write decimals with a point: {value.replace(',', '.')} instead of {value}"
    return f"correct the value {value!r}; if it means a missing value, leave the field empty"
