"""The days of the demo: the same made-up month whatever the date is, with a poisoned day at its end.

Training, its seeds and the verdicts see no dates, so that the demo has the same three nights on any day of any year.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ratchet.samples.clicks import day_clicks
from ratchet.samples.days import write_days

NIGHTS = 3
COUNT = 30 + NIGHTS - 1  # the window of each night
_ROWS = 20_000  # of a day
_LAST = date(2026, 3, 20)  # of the made-up world; the last day on disk is a copy of it
_SEED = 0
_CENTS = 100


def write(out: Path, *, last: date) -> Iterator[Path]:
    """Write `<out>/clicks/date=YYYY-MM-DD/part-0.parquet` for all windows of the nights, yielding each file.

    last: the data date of the last night. On that day prices are in cents, as after a change nobody announced.
    """
    moved = last - _LAST

    def table(day: date) -> pa.Table:
        rows = _moved(day_clicks(day - moved, seed=_SEED, rows_per_day=_ROWS), moved)
        return _in_cents(rows) if day == last else rows

    return write_days(out / "clicks", days=COUNT, end=last, table=table)


def _moved(rows: pa.Table, by: timedelta) -> pa.Table:
    """The rows with their times moved by some days."""
    column = rows.column_names.index("shown_at")
    times = pc.add(rows["shown_at"], pa.scalar(by, type=pa.duration("us")))
    return rows.set_column(column, "shown_at", times)


def _in_cents(rows: pa.Table) -> pa.Table:
    column = rows.column_names.index("price")
    return rows.set_column(column, "price", pc.multiply(rows["price"], pa.scalar(float(_CENTS))))
