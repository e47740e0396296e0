"""Columns that refer to each other: the weights of a list, shared vectors, statistics, and columns that are made."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches

from ratchet.contracts.columns import LISTS, Column, problems_of
from ratchet.contracts.made_columns import makes_fit
from ratchet.contracts.misfits import Misfit, UnknownKey


def columns_fit(columns: Mapping[str, Column]) -> Iterator[Misfit]:
    """Find the keys of a column that do not fit together, for each column."""
    for name, column in columns.items():
        for message in problems_of(column):
            yield Misfit(("columns", name), message)
    for between in (_weights_fit, _shares_fit, _statistics_fit, makes_fit):
        with suppress(UnknownKey):
            yield from between(columns)


def _weights_fit(columns: Mapping[str, Column]) -> Iterator[Misfit]:
    """Each list_weight column has one list, and each list at most one of them."""
    known = [name for name, column in columns.items() if column.role == "list_weight"]
    taken: dict[str, str] = {}
    for name, column in columns.items():
        if column.weights is None:
            continue
        if column.weights not in known:
            near = get_close_matches(column.weights, known, n=1)
            message = f"{column.weights} is no column of role list_weight"
            yield Misfit(("columns", name, "weights"), message, ", ".join(known), *near)
        elif column.weights in taken:
            message = f"{column.weights} has the weights of {taken[column.weights]}; a list has a column of its own"
            yield Misfit(("columns", name, "weights"), message)
        taken.setdefault(column.weights, name)
    for name in known:
        if name not in taken:
            remedy = f"write `weights: {name}` in the list's column, or give this one the role ignore"
            yield Misfit(("columns", name, "role"), "no list has these weights", remedy=remedy)


def _shares_fit(columns: Mapping[str, Column]) -> Iterator[Misfit]:
    """A list shares the vectors of a categorical column of its values' type, which has vectors of its own."""
    for name, column in columns.items():
        if column.share is None:
            continue
        kind = LISTS.get(column.type)
        known = [
            one
            for one, other in columns.items()
            if other.role == "categorical" and other.share is None and kind in {other.type, LISTS.get(other.type)}
        ]
        known = [one for one in known if one != name]
        if column.share not in known:
            near = get_close_matches(column.share, known, n=1)
            message = f"{column.share} is no categorical column of {kind} with vectors of its own"
            yield Misfit(("columns", name, "share"), message, ", ".join(known), *near)


def _statistics_fit(columns: Mapping[str, Column]) -> Iterator[Misfit]:
    """A pipeline has statistics of categories, or lists and vectors."""
    several = [name for name, column in columns.items() if column.is_list or column.is_vector]
    for name, column in columns.items():
        if column.statistics and several:
            message = f"statistics do not go together with lists and vectors, such as {several[0]}"
            yield Misfit(("columns", name, "statistics"), message, remedy=f"take them out, or {several[0]}")
