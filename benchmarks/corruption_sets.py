"""The days that `corruptions` spoils: real flights and impressions, and our two samples, each with its own pipeline.

Each pipeline says no more of its columns than a careful person would, and leaves the limits of validate as they are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Literal

import polars as pl

from benchmarks.tasksets import SHARED
from ratchet.contracts import dates
from ratchet.samples.clicks import day_clicks
from ratchet.samples.payments import day_payments

_ROWS = 4_000
Columns = dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A set of days. text: two categories, large ones first; numbers: two numbers; they and the key are columns."""

    name: str
    last: date
    window: int
    read: Callable[[date], pl.DataFrame]
    columns: Columns
    time: str
    key: tuple[str, ...]
    text: tuple[str, str]
    numbers: tuple[str, str]
    label: str
    objective: Literal["binary", "ranking"] = "binary"
    slices: tuple[str, ...] = ()
    timezone: str = "UTC"

    def column(self, which: str) -> str:
        """The column that is its text, text2, number, number2, label or time."""
        named = {"text": self.text[0], "text2": self.text[1], "number": self.numbers[0], "number2": self.numbers[1]}
        return {**named, "label": self.label, "time": self.time}[which]

    def days(self) -> Iterator[date]:
        """The days of the window, oldest first."""
        yield from dates.window(self.last, self.window)

    def document(self, uri: str) -> dict[str, Any]:
        """The pipeline file. uri: where its days are."""
        return {
            "name": self.name,
            "source": {"kind": "files", "uri": uri, "window_days": self.window, "timezone": self.timezone},
            "columns": self.columns,
            "validate": {"unique": [list(self.key)]},
            "train": {"objective": self.objective},
            "evaluate": {"slices": list(self.slices)},
        }


def _shared(name: str, columns: Columns, day: date) -> pl.DataFrame:
    return pl.read_parquet(SHARED / name / f"date={day}" / "part-0.parquet", columns=list(columns))


def _sample(make: Callable[..., Any], columns: Columns, day: date) -> pl.DataFrame:
    found = pl.from_arrow(make(day, seed=7, rows_per_day=_ROWS))
    assert isinstance(found, pl.DataFrame)
    return found.select(list(columns))


_FLIGHTS: Columns = {
    "sched_dep_ts": {"role": "time", "type": "timestamp"},
    "carrier": {"role": "categorical", "type": "string", "max_null": "0%"},
    "origin": {"role": "categorical", "type": "string", "max_null": "0%"},
    "dest": {"role": "categorical", "type": "string", "max_null": "0%"},
    "flight": {"role": "ignore", "type": "int64"},
    "distance": {"role": "numeric", "type": "int64", "min": 1, "max_null": "0%"},
    "sched_dep_time": {"role": "numeric", "type": "int64", "min": 0, "max": 2400},
    "label_arr_delay_gt15": {"role": "label", "type": "int64", "in": [0, 1]},
}
_OBD: Columns = {
    "event_ts": {"role": "time", "type": "timestamp"},
    "impression_id": {"role": "id", "type": "string"},
    "campaign": {"role": "categorical", "type": "string", "max_null": "0%"},
    "policy": {"role": "categorical", "type": "string", "max_null": "0%"},
    "user_feature_0": {"role": "categorical", "type": "string"},
    "propensity": {"role": "numeric", "type": "float64", "min": 0, "max": 1, "max_null": "0%"},
    "item_feature_0": {"role": "numeric", "type": "float64", "max_null": "0%"},
    "clicked": {"role": "label", "type": "int64", "in": [0, 1]},
}
_CLICKS: Columns = {
    "shown_at": {"role": "time", "type": "timestamp"},
    "query_id": {"role": "group", "type": "int64"},
    "item_id": {"role": "categorical", "type": "string", "max_null": "0%"},
    "country": {"role": "categorical", "type": "string", "max_null": "0%"},
    "price": {"role": "numeric", "type": "float64", "min": 0, "max_null": "1%"},
    "rating": {"role": "numeric", "type": "float64", "min": 0, "max": 5, "max_null": "0%"},
    "clicked": {"role": "label", "type": "int64", "in": [0, 1]},
}
_PAYMENTS: Columns = {
    "paid_at": {"role": "time", "type": "timestamp"},
    "payment_id": {"role": "id", "type": "int64"},
    "merchant_category": {"role": "categorical", "type": "string", "max_null": "0%"},
    "channel": {"role": "categorical", "type": "string", "max_null": "0%"},
    "card_country": {"role": "categorical", "type": "string", "max_null": "0%"},
    "amount": {"role": "numeric", "type": "float64", "min": 0, "max_null": "0%"},
    "seconds_since_last": {"role": "numeric", "type": "float64", "min": 0, "max_null": "5%"},
    "fraud": {"role": "label", "type": "int64", "in": [0, 1]},
}


def flights() -> DataSet:
    """Departures from New York in 2013."""
    return DataSet(
        name="flights",
        last=date(2013, 6, 12),
        window=15,
        read=partial(_shared, "flights", _FLIGHTS),
        columns=_FLIGHTS,
        time="sched_dep_ts",
        key=("carrier", "flight", "origin", "dest", "sched_dep_time"),
        text=("origin", "carrier"),
        numbers=("distance", "sched_dep_time"),
        label="label_arr_delay_gt15",
        slices=("origin",),
        timezone="America/New_York",
    )


def flights_before_departure() -> DataSet:
    """The same without the scheduled minute, which lacks where a flight is cancelled: it tells what happens later."""
    columns = {name: column for name, column in _FLIGHTS.items() if name != "sched_dep_time"}
    columns["flight"] = {"role": "categorical", "type": "int64"}
    key = ("carrier", "flight", "origin", "dest", "sched_dep_ts")
    return replace(flights(), columns=columns, key=key, numbers=("distance", "distance"))


def impressions() -> DataSet:
    """Impressions of a fashion shop, with 22 to 39 clicks a day."""
    return DataSet(
        name="obd",
        last=date(2019, 11, 30),
        window=7,
        read=partial(_shared, "obd", _OBD),
        columns=_OBD,
        time="event_ts",
        key=("impression_id",),
        text=("campaign", "user_feature_0"),
        numbers=("propensity", "item_feature_0"),
        label="clicked",
        slices=("campaign", "policy"),
    )


def samples() -> tuple[DataSet, DataSet]:
    """Clicks and payments."""
    clicks = DataSet(
        name="clicks",
        last=date(2026, 3, 20),
        window=10,
        read=partial(_sample, day_clicks, _CLICKS),
        columns=_CLICKS,
        time="shown_at",
        key=("query_id", "item_id"),
        text=("country", "item_id"),
        numbers=("price", "rating"),
        label="clicked",
        objective="ranking",
        slices=("country",),
    )
    payments = DataSet(
        name="payments",
        last=date(2026, 3, 20),
        window=10,
        read=partial(_sample, day_payments, _PAYMENTS),
        columns=_PAYMENTS,
        time="paid_at",
        key=("payment_id",),
        text=("channel", "merchant_category"),
        numbers=("amount", "seconds_since_last"),
        label="fraud",
        slices=("channel", "card_country"),
    )
    return clicks, payments


def sets() -> tuple[DataSet, ...]:
    """Those whose days are here."""
    real = [make() for name, make in (("flights", flights), ("obd", impressions)) if (SHARED / name).is_dir()]
    return (*real, *samples())


def write(path: Path, rows: pl.DataFrame) -> None:
    """Write a day of a source."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows.write_parquet(path)
