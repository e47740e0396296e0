"""Source files of JSON lines as record batches: a row is an object on a line of its own."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.json

from ratchet.contracts.columns import ColumnType
from tasks.ingest.schema import ARROW

_BLOCK = 8 << 20
_MARK = b"\xef\xbb\xbf"
"""A byte order mark, which some programs write before UTF-8."""
_FIRST = 100
"""Lines whose keys are looked at."""
_AS_TEXT = frozenset({"timestamp", "date"})
"""Types that JSON has not."""


def is_json(begin: bytes, name: str) -> bool:
    """Whether a file that begins so has JSON lines; one that is named so and has an array is refused as such."""
    first = begin.removeprefix(_MARK).lstrip()[:1]
    return first == b"{" or (first == b"[" and ".json" in name.lower())


def keys(stream: Any) -> list[str]:
    """The keys of the first lines. Raises ValueError, as json does, for a line that is no object."""
    found: dict[str, None] = {}
    for line in islice(stream, _FIRST):
        if not line.strip():
            continue
        if not line.lstrip().startswith("{"):
            raise ValueError(f"{line.strip()[:40]!r} is no object")
        found |= dict.fromkeys(json.loads(line))
    return list(found)


def batches(stream: Any, columns: dict[str, ColumnType]) -> Iterator[Any]:
    """The declared columns of all lines; a key that a line has not is missing there. Times are text."""
    schema = pa.schema([(name, pa.string() if kind in _AS_TEXT else ARROW[kind]) for name, kind in columns.items()])
    parse = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pa.json.ReadOptions(block_size=_BLOCK, use_threads=False)
    with pa.json.open_json(stream, read_options=read, parse_options=parse) as reader:
        yield from (batch.select(list(columns)) for batch in reader)


def remedy_of(message: str) -> str:
    """The remedy for an error of the JSON reader."""
    if found := re.search(r"Column\(/([^)/]*).*\) changed from (\w+) to (\w+)", message):
        return f"deliver {found[1]} as {found[2]} on every line, or change columns.{found[1]}.type"
    if "Failed to convert JSON" in message:
        return "correct the value, or change the type of its column in the pipeline file"
    if "straddling object" in message:
        return f"deliver lines of at most {_BLOCK >> 20} MiB"
    return "deliver the file again, with an object on each line"
