"""What can happen to the rows of a day: the parts of which `corruption_catalogue` is made.

A corruption takes a day, the day before, and its set; it returns the rows of the day as they arrive, or the bytes of
its file. Where several rules see the same thing, any of those that it expects is right. Columns are named by what they
are in a set: see `DataSet.column`.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import polars as pl

from benchmarks.corruption_sets import DataSet

Expected = Callable[[DataSet], set[tuple[str, str | None]]]
Change = Callable[["Day"], pl.DataFrame | bytes]
Values = Callable[[pl.Expr], pl.Expr]


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The rows of the data date and of the day before it."""

    rows: pl.DataFrame
    before: pl.DataFrame
    of: DataSet

    def some(self, share: float) -> pl.Series:
        """True for about this share of the rows, the same ones each time."""
        return pl.Series(np.random.default_rng(11).random(self.rows.height) < share)

    def top(self, place: int = 0) -> str:
        """A frequent value of the set's text column."""
        name = self.of.column("text")
        return str(self.rows[name].drop_nulls().value_counts(sort=True)[name][place])


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption:
    """One entry. expected: rules with their columns; the rule `ingest` is a refusal of the file itself."""

    name: str
    change: Change
    expected: Expected

    @property
    def is_csv(self) -> bool:
        """Whether the bytes that it makes are those of a CSV file."""
        return "CSV" in self.name


def rules(*names: str, of: str = "") -> Expected:
    """Rules about one column of a set, or about all rows."""
    return lambda one: {(rule, one.column(of) if of else None) for rule in names}


def key_rules(*names: str, time: bool = False) -> Expected:
    """Rules about all rows, about the columns of the key, and about the time."""
    return lambda one: {
        *((rule, column) for rule in names for column in (None, *one.key)),
        *([("times", one.time)] if time else []),
    }


def on(which: str, values: Values) -> Change:
    """Replace a column by an expression of it."""

    def change(day: Day) -> pl.DataFrame:
        name = day.of.column(which)
        return day.rows.with_columns(values(pl.col(name)).alias(name))

    return change


def on_some(which: str, share: float, values: Values) -> Change:
    """Replace a share of a column's values."""

    def change(day: Day) -> pl.DataFrame:
        name = day.of.column(which)
        column = pl.col(name)
        chosen = pl.when(pl.lit(day.some(share))).then(values(column)).otherwise(column)
        return day.rows.with_columns(chosen.alias(name))

    return change


def without_top(share: float) -> Change:
    """Delete a share of the rows of the most frequent text."""
    return lambda day: day.rows.filter(~((pl.col(day.of.column("text")) == day.top()) & pl.lit(day.some(share))))


def tops_swapped(day: Day) -> pl.DataFrame:
    """The most frequent text is the second one, and the other way round."""
    first, second = day.top(), day.top(1)
    return day.rows.with_columns(pl.col(day.of.column("text")).replace({first: second, second: first}))


def swapped(one: str, two: str) -> Change:
    """Two columns, each under the name of the other."""

    def change(day: Day) -> pl.DataFrame:
        a, b = day.of.column(one), day.of.column(two)
        types = day.rows.schema
        both = [pl.col(source).cast(types[name], strict=False).alias(name) for name, source in ((a, b), (b, a))]
        return day.rows.with_columns(both)

    return change


def renamed(which: str, to: Callable[[str], str]) -> Change:
    """A column under another name."""
    return lambda day: day.rows.rename({day.of.column(which): to(day.of.column(which))})


def truncated(day: Day) -> bytes:
    """The first six tenths of the file."""
    sink = io.BytesIO()
    day.rows.write_parquet(sink)
    return sink.getvalue()[: len(sink.getvalue()) * 6 // 10]


def csv_in_latin(day: Day) -> bytes:
    """A CSV file that is not UTF-8."""
    return day.rows.with_columns(pl.col(day.of.column("text")) + "é").write_csv().encode("latin-1")


def yesterday_changed(day: Day) -> pl.DataFrame:
    """The rows of the day before, with one value changed."""
    number = pl.col(day.of.column("number"))
    return day.before.with_columns(pl.when(pl.int_range(pl.len()) == 0).then(number + 1).otherwise(number))


def half_of_yesterday(day: Day) -> pl.DataFrame:
    """Half of the day, and half of the day before."""
    half = day.rows.height // 2
    return pl.concat([day.rows.head(half), day.before.tail(half)])


def yesterday_under_todays_time(day: Day) -> pl.DataFrame:
    """The rows of the day before, a day later."""
    return day.before.with_columns(pl.col(day.of.time) + timedelta(days=1))


def leaked(noise: float) -> Change:
    """A number that is made from the label."""

    def change(day: Day) -> pl.DataFrame:
        name = day.of.column("number")
        spread = pl.Series(np.random.default_rng(11).normal(0, 1, day.rows.height)) * noise
        known = (pl.col(day.of.label).cast(pl.Float64).fill_null(0.0) * 3 + pl.lit(spread) + 10) * 10
        value = known / 200 if day.of.name == "obd" else known
        return day.rows.with_columns(value.cast(day.rows.schema[name]).alias(name))

    return change
