"""A pipeline file that fits the rows of a data file, with a mark at each line that the rows cannot decide."""

import math
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from ratchet.contracts.errors import ConfigurationError
from tasks.ingest.csv_form import CsvForm
from tasks.profiling.roles import ASK, Suggested, column_of, decide
from tasks.profiling.rows import ROWS, read_rows

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST, _NAME_LENGTH = 120, 60
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def suggest(path: Path) -> str:
    """The text of the file. Raises ConfigurationError for a file without rows, or of another kind."""
    rows, form = read_rows(path)
    if not rows.height or not rows.width:
        raise ConfigurationError(f"{path}: it has no rows", remedy="name a file with rows")
    columns = [
        column_of(name, rows[name], taken) for name, taken in zip(rows.columns, _names(rows.columns), strict=True)
    ]
    objective = decide(columns)
    return "\n".join([*_head(path, rows, form), *_source(path, columns), *_body(columns), *_tail(columns, objective)])


def _names(sources: list[str]) -> list[str]:
    """Names that a pipeline file allows, each one once."""
    found: list[str] = []
    for source in sources:
        plain = source if _NAME.fullmatch(source) else re.sub(r"\W+", "_", _ascii(source), flags=re.ASCII).strip("_")
        plain = plain if _NAME.fullmatch(plain) else f"column_{plain}".rstrip("_")
        plain = f"{plain}_" if plain == "date" else plain[:_LONGEST]  # the snapshot has a column `date`
        while plain in found:
            plain += "_"
        found.append(plain)
    return found


def _ascii(text: str) -> str:
    """Small letters without accents."""
    apart = unicodedata.normalize("NFKD", text.casefold())  # ß becomes ss
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def _head(path: Path, rows: pl.DataFrame, form: CsvForm | None) -> Iterator[str]:
    read = f"the first {ROWS:,} rows" if rows.height >= ROWS else f"{rows.height:,} rows"
    yield f"# Suggested from {read} of {path.name}."
    yield f"# A line with `{ASK}` says what rows cannot tell: read it, and correct it."
    if form is not None and form.said:
        yield f"# The file has {form.said}; Ratchet recognises that, and source.csv sets it."
    yield f"name: {_pipeline(path)}  {ASK} of the DAG and of the model"


def _pipeline(path: Path) -> str:
    """The first part of the path, from the end, that names something."""
    absolute = path.absolute()
    for part in (path.name.partition(".")[0], *(above.name for above in absolute.parents)):
        name = re.sub(r"[^a-z0-9]+", "-", _DAY.sub("", part).lower()).strip("-")
        if name[:1].isalpha() and not re.fullmatch(r"(date|day|dt|part|data|file)(-?\d+)?", name):
            return name[:_NAME_LENGTH].rstrip("-")
    return "my-pipeline"


def _source(path: Path, columns: list[Suggested]) -> Iterator[str]:
    uri = _DAY.sub("{date}", str(path))
    dated = "{date}" in uri
    yield "source:"
    yield "  kind: files"
    yield f"  uri: {_quoted(uri if dated else str(path.parent / ('{date}' + ''.join(path.suffixes))))}" + (
        "" if dated else f"  {ASK} where the files of a day are"
    )
    yield f"  window_days: 30  {ASK} how many days there are, the newest one included"
    renamed = {one.name: one.source for one in columns if one.name != one.source}
    if renamed:
        yield f"  names: {_flow(renamed)}"
    codes = {
        one.name: sorted(one.present.unique().to_list())
        for one in columns
        if one.role == "label" and one.kind == "string"
    }
    if codes:
        yield f"  codes: {_flow(codes)}"


def _body(columns: list[Suggested]) -> Iterator[str]:
    yield "columns:"
    width = max(len(column.name) for column in columns) + 1
    for column in columns:
        kind = "int64" if column.role == "label" and column.kind == "string" else column.kind
        keys = {
            "role": column.role,
            "type": kind,
            **{key: value for key, value in column.keys.items() if key != "role"},
        }
        notes = [note for note in column.notes if not note.startswith(ASK)] + [
            note for note in column.notes if note.startswith(ASK)
        ]
        notes = [" ".join(note.split()) for note in notes]
        said = "  # " + "; ".join(note.removeprefix("# ") for note in notes) if notes else ""
        yield f"  {column.name + ':':<{width}} {_flow(keys)}{said}"
    if not any(column.role == "label" for column in columns):
        yield f"  {ASK} no column looks like the label: give one the role label"


def _tail(columns: list[Suggested], objective: str) -> Iterator[str]:
    unique = [[column.name] for column in columns if column.role == "id"]
    if unique:
        yield "validate:"
        yield f"  unique: {_flow(unique)}"
    yield "train:"
    yield f"  objective: {objective}  {ASK} ranking, binary, regression or multiclass"
    yield ""


class _Dumper(yaml.SafeDumper):
    """Quotes texts that begin like a number: PyYAML leaves 1e5 as it is, and a pipeline file reads it as a number."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if value[:1] in "-+.0123456789" and not value.endswith("%") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def _flow(value: Any) -> str:
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, width=math.inf, sort_keys=False, allow_unicode=True
    )
    return text.strip()


def _quoted(text: str) -> str:
    return yaml.safe_dump(text, default_style='"', width=math.inf, allow_unicode=True).strip()
