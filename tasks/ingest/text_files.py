"""Files of text, packed or not: what their first bytes say counts, and not their names."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from ratchet.store.disk import disk_fault

BEGIN = 1 << 20
"""Bytes of the text by which a file is recognised."""
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_BZ2 = (b"BZh", b"1AY&SY")
"""How a file of bz2 begins, and what follows a digit then: `BZh` alone may be the name of a column."""


def open_text(path: Path) -> Any:
    """The text of a file as a stream of bytes."""
    with path.open("rb") as file:
        first = file.read(10)
    found = next((name for begin, name in _COMPRESSIONS.items() if first.startswith(begin)), None)
    if first.startswith(_BZ2[0]) and first[4:] == _BZ2[1]:
        found = "bz2"
    return pa.input_stream(str(path), compression=found)


def beginning(path: Path) -> bytes:
    """The first bytes of a file's text; none if it is no text. Raises OSError if the disk does not give them."""
    try:
        with open_text(path) as stream:
            begin: bytes = stream.read(BEGIN)
            return begin
    except OSError as error:
        if disk_fault(error) is not None:
            raise
        return b""
