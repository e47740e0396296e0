"""The days of the demo: the same synthetic month on any date, with a poisoned day at its end.

Training, its seeds and the verdicts do not depend on dates. So the demo has the same three nights on any date.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ratchet.samples.clicks import day_clicks
from ratchet.samples.days import write_days

BACK = (8, 1, 0)
"""The data dates of the nights, in days before the last. A week of new items is what a first model lacks."""
COUNT = 30 + BACK[0]  # 30: the window of each night
_ROWS = 5_000  # per day
_LAST = date(2026, 3, 20)  # of the synthetic world; the last day on disk is a copy of it
_SEED = 0
_CENTS = 100


def write(out: Path, *, last: date) -> Iterator[Path]:
    """Write `<out>/clicks/date=YYYY-MM-DD/part-0.parquet` for all windows of the nights; yield each file.

    last: the data date of the last night. On that day prices are in cents, as after an unannounced change.
    """
    moved = last - _LAST

    def table(day: date) -> pa.Table:
        rows = _shift(day_clicks(day - moved, seed=_SEED, rows_per_day=_ROWS), moved)
        return _in_cents(rows) if day == last else rows

    return write_days(out / "clicks", days=COUNT, end=last, table=table)


def _shift(rows: pa.Table, by: timedelta) -> pa.Table:
    """The rows with their times moved by `by`."""
    column = rows.column_names.index("shown_at")
    times = pc.add(rows["shown_at"], pa.scalar(by, type=pa.duration("us")))
    return rows.set_column(column, "shown_at", times)


def _in_cents(rows: pa.Table) -> pa.Table:
    column = rows.column_names.index("price")
    return rows.set_column(column, "price", pc.multiply(rows["price"], pa.scalar(float(_CENTS))))
