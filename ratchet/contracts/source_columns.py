"""The columns of the pipeline file as the source has them: under another name, or as text in the place of numbers."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from ratchet.contracts.columns import Column
from ratchet.contracts.misfits import Misfit
from ratchet.contracts.source import Source


def as_written(source: Source) -> dict[str, object]:
    """What identifies the rows of a table beside its columns: other names, and codes; empty where there are none."""
    names = {name: own for name, own in source.names.items() if own != name}
    found: dict[str, object] = {"names": names, "codes": source.codes}
    return {key: value for key, value in found.items() if value}


def source_columns_fit(spec: Any) -> Iterator[Misfit]:
    """The rules between source.names, source.codes and columns."""
    columns = {name: column for name, column in spec.columns.items() if not getattr(column, "derived", False)}
    for key, given in (("names", spec.source.names), ("codes", spec.source.codes)):
        for name in given:
            if name not in columns:
                near = get_close_matches(name, columns, n=1)
                yield Misfit(("source", key, name), f"{name} is no column of the source", ", ".join(columns), *near)
    yield from _names_fit(columns, spec.source.names)
    for name, texts in spec.source.codes.items():
        kind = getattr(columns.get(name), "type", "int64")
        if kind != "int64":
            yield Misfit(("source", "codes", name), f"codes are whole numbers, and {name} is {kind}", "int64")
        if len(set(texts)) < len(texts):
            yield Misfit(("source", "codes", name), "names a text twice")


def _names_fit(columns: Mapping[str, Column], names: Mapping[str, str]) -> Iterator[Misfit]:
    """No two columns are the same one of the source."""
    taken: dict[str, str] = {}
    for name in columns:
        own = names.get(name, name)
        if own in taken:
            place = name if name in names else taken[own]
            yield Misfit(("source", "names", place), f"{own} is {taken[own]} and {name}; a column is read once")
        taken.setdefault(own, name)
