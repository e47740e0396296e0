"""Further sources, whose newest row at the time of a row of the pipeline is joined to it. See docs/joins.md.

A change here violates the promise of the project when a row can get a value that became known after its own time.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import Field

from ratchet.contracts.document import Document
from ratchet.contracts.misfits import Misfit
from ratchet.contracts.quantities import Duration
from ratchet.contracts.source import Source

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]
KEY_TYPES = ("int64", "string", "bool", "timestamp", "date")
"""The types of a key: two floats that print alike may differ, and a list has no single value."""
_OWN_DAYS = 30
"""The default of source.window_days."""


class Join(Document):
    """A further source. Each row of the pipeline gets the columns of one of its rows, or missing values.

    That is the newest row with the same key whose time is at or before the row's own, and not older than `within`.
    """

    source: Source = Field(
        description="Where the further rows come from, day by day; its keys are those of `source`. `names` says what "
        "it calls a key or a column that has another name here. Without a timezone its days are those of the main "
        "source."
    )
    on: tuple[Name, ...] = Field(
        min_length=1, description="The columns of the main source that name what a row is about, as in `[user_id]`."
    )
    time: str = Field(
        min_length=1,
        description="What the further source calls the moment at which a row of it became known: a timestamp. It is "
        "compared with the column of role time.",
    )
    within: Duration = Field(
        description="How old a further row may be, at most, as in `30d`. Ingest looks at the days of the further "
        "source from so long before a day of the main source up to its end."
    )
    columns: tuple[Name, ...] = Field(
        min_length=1, description="The columns of `columns` that come from here, and not from the main source."
    )


def joined_columns(spec: Any) -> dict[str, str]:
    """The columns that come from further sources, each with the name of its join."""
    return {column: name for name, join in spec.joins.items() for column in getattr(join, "columns", ())}


def own_columns(spec: Any) -> dict[str, Any]:
    """The columns that come from the main source, by name."""
    joined = joined_columns(spec)
    return {
        name: column
        for name, column in spec.columns.items()
        if name not in joined and not getattr(column, "derived", False)
    }


def sources(spec: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The path of each source in the file, and the source: the main one first."""
    yield ("source",), spec.source
    for name, join in spec.joins.items():
        if (source := getattr(join, "source", None)) is not None:
            yield ("joins", name, "source"), source


def joins_fit(spec: Any) -> Iterator[Misfit]:
    """The rules between joins and columns."""
    if not spec.joins:
        return
    yield from _time_fits(spec)
    taken: dict[str, str] = {}
    for name, join in spec.joins.items():
        yield from _keys_fit(spec, name, join)
        yield from _columns_fit(spec, name, join, taken)
        yield from _days_fit(name, join.source)


def written_joins_fit(spec: Any) -> Iterator[Misfit]:
    """Further rules for the joins that people write; a stored document that breaks one still reads."""
    for name, join in spec.joins.items():
        names, path = join.source.names, ("joins", name, "source")
        for column in join.columns:
            kind = getattr(spec.columns.get(column), "type", "timestamp")
            if names.get(column, column) == join.time and kind != "timestamp":
                yield Misfit(("columns", column, "type"), f"{column} is joins.{name}.time, and {kind}", "timestamp")
        for key in join.on:
            own, other = spec.source.codes.get(key), join.source.codes.get(key)
            if own and other and own != other:
                message = f"source.codes.{key} differs: one number would be two texts"
                yield Misfit((*path, "codes", key), message, remedy="give both the same texts in the same order")
        main, given = spec.source.day_starts, "day_starts" in join.source.model_fields_set
        if given and join.source.day_starts == "00:00" != main and join.source.timezone is None:
            message = f"without a timezone its days begin at {main}, as those of the main source"
            yield Misfit((*path, "day_starts"), message, remedy=f"set joins.{name}.source.timezone, or delete it")


def _time_fits(spec: Any) -> Iterator[Misfit]:
    first, joined = ("joins", next(iter(spec.joins))), joined_columns(spec)
    times = [name for name, column in spec.columns.items() if getattr(column, "role", "") == "time"]
    if not times and all(hasattr(column, "role") for column in spec.columns.values()):
        message = "a join needs a column of role time, which says when a row was"
        yield Misfit(first, message, remedy="give a timestamp of the main source the role time")
    for name in times:
        if getattr(spec.columns[name], "type", "timestamp") != "timestamp":
            message = f"a join compares moments, and the column of role time, {name}, is a date"
            yield Misfit(("columns", name, "type"), message, "timestamp")
        if name in joined:
            message = f"{name} has the role time: it says which row is joined, so it comes from the main source"
            yield Misfit(("joins", joined[name], "columns"), message)


def _keys_fit(spec: Any, name: str, join: Any) -> Iterator[Misfit]:
    own = own_columns(spec)
    yield from _twice(("joins", name, "on"), join.on)
    for key in join.on:
        if key not in own:
            names = getattr(getattr(join, "source", None), "names", {})
            here = [one for one, there in names.items() if there == key and one in own]
            near = here or get_close_matches(key, own, n=1)
            yield Misfit(("joins", name, "on"), f"{key} is no column of the main source", ", ".join(own), *near[:1])
        elif getattr(own[key], "type", "int64") not in KEY_TYPES:
            message = f"{key} is {own[key].type}, which cannot be a key"
            yield Misfit(("joins", name, "on"), message, f"a column of type {', '.join(KEY_TYPES)}")
        elif getattr(own[key], "role", "") == "label":
            yield Misfit(("joins", name, "on"), f"{key} is the label, which is not known when a row is scored")


def _columns_fit(spec: Any, name: str, join: Any, taken: dict[str, str]) -> Iterator[Misfit]:
    path = ("joins", name, "columns")
    yield from _twice(path, join.columns)
    for column in dict.fromkeys(join.columns):
        found = spec.columns.get(column)
        if found is None:
            near = get_close_matches(column, spec.columns, n=1)
            remedy = f"add {column} to columns, with its role and type"
            message = f"{column} is not in columns"
            yield Misfit(path, message, ", ".join(spec.columns), "".join(near), remedy)
        elif getattr(found, "derived", False):
            yield Misfit(path, f"{column} is made from columns of its row, and comes from no source")
        elif getattr(found, "role", "") == "label":
            yield Misfit(path, f"{column} is the label: it comes after its row, and a join sees what was before")
        if column in taken:
            remedy = f"give one of the two another name, and say in source.names what its source calls it: {column}"
            yield Misfit(path, f"{column} comes from {taken[column]} already", remedy=remedy)
        taken.setdefault(column, name)


def _twice(path: tuple[str, ...], names: Iterable[str]) -> Iterator[Misfit]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield Misfit(path, f"names {name} twice")
        seen.add(name)


def _days_fit(name: str, source: Any) -> Iterator[Misfit]:
    """The keys of a source that a further one does not have."""
    path = ("joins", name, "source")
    if source.window_days != _OWN_DAYS:
        message = f"the days of a further source follow from joins.{name}.within"
        yield Misfit((*path, "window_days"), message, remedy=f"delete it, and set joins.{name}.within")
    if source.keep_days is not None:
        yield Misfit((*path, "keep_days"), "source.keep_days is of all sources", remedy="delete it")
    if source.wait is not None:
        message = "a run waits for all of its sources as long as source.wait says"
        yield Misfit((*path, "wait"), message, remedy="delete it, and set source.wait")
    if source.kind == "files" and source.ready.fresh is not None:
        yield Misfit((*path, "ready", "fresh"), "only the age of the main source is looked at", remedy="delete it")
