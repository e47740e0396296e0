"""The catalogue of `corruptions`: what happens to a day, and which rule and column have to name it."""

from datetime import timedelta

import polars as pl

from benchmarks import corruption as made
from benchmarks.corruption import Corruption, key_rules, on, on_some, rules

_CATEGORY = ("lost categories", "new categories", "drift")
_DAY = timedelta(days=1)

_DELETE = (
    ("half of the rows", lambda day: day.rows.filter(~day.some(0.5)), rules("volume")),
    ("nine of ten rows", lambda day: day.rows.filter(~day.some(0.9)), rules("volume")),
    ("every row", lambda day: day.rows.head(0), rules("volume", "ingest")),
    ("the most frequent category", made.without_top(1.0), rules("slice volume", *_CATEGORY, of="text")),
    ("most rows of a category", made.without_top(0.8), rules("slice volume", "drift", of="text")),
    ("every value of a number", on("number", lambda c: c * None), rules("null", "drift", "empty", of="number")),
    (
        "a third of a category",
        on_some("text", 0.33, lambda c: c.str.extract("(never)")),
        rules("null", "drift", of="text"),
    ),
    ("every label", on("label", lambda c: c * None), rules("label", of="label")),
    ("two thirds of the labels", on_some("label", 0.67, lambda c: c * None), rules("volume", of="label")),
    ("a column", lambda day: day.rows.drop(day.of.column("number")), rules("ingest", of="number")),
    (
        "every positive",
        lambda day: day.rows.filter(pl.col(day.of.label) != 1),
        rules("label", "label rate", of="label"),
    ),
)
_DUPLICATE = (
    ("every row", lambda day: pl.concat([day.rows, day.rows]), key_rules("repeats", "unique")),
    (
        "one row in ten",
        lambda day: pl.concat([day.rows, day.rows.filter(day.some(0.1))]),
        key_rules("repeats", "unique"),
    ),
    ("yesterday's file", lambda day: day.before, key_rules("duplicate", time=True)),
    ("yesterday's file with one value changed", made.yesterday_changed, key_rules("duplicate", time=True)),
    ("half of yesterday's rows", made.half_of_yesterday, key_rules("duplicate", time=True)),
    ("yesterday's rows under today's time", made.yesterday_under_todays_time, key_rules("duplicate")),
)
_TRUNCATE = (
    ("the file", made.truncated, rules("ingest")),
    ("the rows after the first four of ten", lambda day: day.rows.head(day.rows.height * 4 // 10), rules("volume")),
    ("a category to one letter", on("text2", lambda c: c.str.slice(0, 1)), rules(*_CATEGORY, "constant", of="text2")),
    ("a number to thousands", on("number2", lambda c: c // 1000 * 1000), rules("drift", "constant", of="number2")),
)
_SHIFT = (
    ("the time by a day", on("time", lambda c: c + _DAY), rules("times", of="time")),
    ("the time by six hours", on("time", lambda c: c - _DAY / 4), rules("times", of="time")),
    ("the time by a year", on("time", lambda c: c + 365 * _DAY), rules("times", of="time")),
    ("a number", on("number", lambda c: c + c.mean() + 3 * c.std()), rules("drift", "max", "ingest", of="number")),
    ("the labels by one row", on("label", lambda c: c.shift(1)), rules("label", "label rate", "leak", of="label")),
)
_RENAME = (
    ("a number", made.renamed("number", lambda name: f"{name}_v2"), rules("ingest", of="number")),
    ("a category in capitals", made.renamed("text", str.upper), rules("ingest", of="text")),
    ("the values of a category", on("text", lambda c: c.str.to_lowercase() + "_"), rules(*_CATEGORY, of="text")),
)
_SCALE = (
    ("a number by a hundred", on("number", lambda c: c * 100), rules("drift", "max", of="number")),
    ("a number by a thousandth", on("number2", lambda c: c / 1000), rules("drift", "ingest", of="number2")),
    ("a number by minus one", on("number", lambda c: -c), rules("min", "drift", of="number")),
    (
        "a third of a number by a hundred",
        on_some("number", 0.33, lambda c: c * 100),
        rules("drift", "max", of="number"),
    ),
)
_SWAP = (
    ("two categories", made.swapped("text", "text2"), rules(*_CATEGORY, of="text")),
    ("two numbers", made.swapped("number", "number2"), rules("drift", "max", "min", "null", of="number")),
    ("0 and 1 of the label", on("label", lambda c: 1 - c), rules("label rate", of="label")),
    ("the two largest values of a category", made.tops_swapped, rules("slice volume", "drift", of="text")),
)
_ZERO = (
    ("a number", on("number", lambda c: c * 0), rules("constant", "drift", "min", of="number")),
    ("four tenths of a number", on_some("number2", 0.4, lambda c: c * 0), rules("drift", "min", of="number2")),
    ("every label", on("label", lambda c: c * 0), rules("label", "label rate", of="label")),
    ("most labels", on_some("label", 0.9, lambda c: c * 0), rules("label rate", of="label")),
    (
        "a category is one word",
        on("text", lambda c: c.str.replace("^.*$", "unknown")),
        rules("constant", *_CATEGORY, of="text"),
    ),
    (
        "-999 in one number of twenty",
        on_some("number", 0.05, lambda c: c * 0 - 999),
        rules("min", "drift", of="number"),
    ),
)
_LEAK = (
    ("a number is the label", made.leaked(0.0), rules("leak", of="number")),
    ("a number is the label with noise", made.leaked(0.5), rules("leak", of="number")),
    (
        "a category is the label",
        lambda day: day.rows.with_columns(pl.col(day.of.label).cast(pl.String).alias(day.of.column("text2"))),
        rules("leak", of="text2"),
    ),
)
_ZONE = (
    (
        "the time came in New York",
        on("time", lambda c: c.dt.replace_time_zone("America/New_York", ambiguous="earliest", non_existent="null")),
        rules("ingest", of="time"),
    ),
    ("the time is that of Tokyo", on("time", lambda c: c + _DAY * 9 / 24), rules("times", of="time")),
    ("the time is seconds since 1970", on("time", lambda c: c.dt.epoch("s")), rules("ingest", of="time")),
)
_ENCODING = (
    (
        "UTF-8 read as Latin-1",
        on_some("text", 0.2, lambda c: pl.concat_str(pl.lit("\u00c3\u00bc"), c)),
        rules(*_CATEGORY, of="text"),
    ),
    ("blanks after a category", on("text", lambda c: c + " "), rules(*_CATEGORY, of="text")),
    (
        "nothing is the word nan",
        on_some("text", 0.1, lambda c: c.str.replace("^.*$", "nan")),
        rules("new categories", of="text"),
    ),
    ("a number with a decimal comma", on("number", lambda c: c.cast(pl.String) + ",0"), rules("ingest", of="number")),
    (
        "CSV in Latin-1",
        made.csv_in_latin,
        lambda one: {*rules("ingest")(one), *rules("ingest", *_CATEGORY, of="text")(one)},
    ),
)

CATALOGUE: tuple[Corruption, ...] = tuple(
    Corruption(name=f"{kind}: {name}", change=change, expected=expected)
    for kind, entries in (
        ("delete", _DELETE),
        ("duplicate", _DUPLICATE),
        ("truncate", _TRUNCATE),
        ("shift", _SHIFT),
        ("rename", _RENAME),
        ("scale", _SCALE),
        ("swap", _SWAP),
        ("zero", _ZERO),
        ("leak", _LEAK),
        ("zone", _ZONE),
        ("encoding", _ENCODING),
    )
    for name, change, expected in entries
)
