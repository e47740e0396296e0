"""The columns of the pipeline file as the source has them: under another name, or as text in the place of numbers."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from ratchet.contracts.columns import Column
from ratchet.contracts.joins import own_columns
from ratchet.contracts.misfits import Misfit
from ratchet.contracts.source import Source
from ratchet.contracts.yaml_lines import KeyPath


def as_written(source: Source) -> dict[str, object]:
    """What identifies the rows of a table beside its columns: other names, and codes; empty where there are none."""
    names = {name: own for name, own in source.names.items() if own != name}
    found: dict[str, object] = {"names": names, "codes": source.codes}
    return {key: value for key, value in found.items() if value}


def source_columns_fit(spec: Any) -> Iterator[Misfit]:
    """The rules between the names and codes of each source and columns."""
    yield from _source_fits(("source",), spec.source, own_columns(spec), {})
    for name, join in spec.joins.items():
        names = join.source.names
        keys = [one for one in join.on if one in spec.columns]
        # Beside a key that is no column, `joins.NAME.on` is what is wrong, and not a name for the column that is meant.
        meant = () if len(keys) == len(join.on) else [one for one in names if one in spec.columns]
        columns = {one: spec.columns[one] for one in (*keys, *join.columns, *meant) if one in spec.columns}
        time = {} if any(names.get(one, one) == join.time for one in join.columns) else {join.time: "its time"}
        yield from _source_fits(("joins", name, "source"), join.source, columns, time)


def _source_fits(
    path: KeyPath, source: Any, columns: Mapping[str, Column], taken: Mapping[str, str]
) -> Iterator[Misfit]:
    for key, given in (("names", source.names), ("codes", source.codes)):
        for name in given:
            if name not in columns:
                near = get_close_matches(name, columns, n=1)
                yield Misfit((*path, key, name), f"{name} is no column of the source", ", ".join(columns), *near)
    yield from _names_fit(path, columns, source.names, taken)
    for name, texts in source.codes.items():
        kind = getattr(columns.get(name), "type", "int64")
        if kind != "int64":
            yield Misfit((*path, "codes", name), f"codes are whole numbers, and {name} is {kind}", "int64")
        if len(set(texts)) < len(texts):
            yield Misfit((*path, "codes", name), "names a text twice")


def _names_fit(
    path: KeyPath, columns: Mapping[str, Column], names: Mapping[str, str], taken: Mapping[str, str]
) -> Iterator[Misfit]:
    """No two columns are the same one of the source."""
    found = dict(taken)
    for name in columns:
        own = names.get(name, name)
        if own in found:
            place = found[own] if name not in names and found[own] in names else name
            yield Misfit((*path, "names", place), f"{own} is {found[own]} and {name}; a column is read once")
        found.setdefault(own, name)
