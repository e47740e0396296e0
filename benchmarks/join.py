"""join: rows/s of the join of a day with further rows by key and time, and DuckDB's ASOF JOIN of the same rows.

Both give the same rows: no two further rows have the same key and time. Seconds are of the processor, so that other
work on the machine counts little, and that two threads are no advantage.
"""

import time

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.measure import Result
from tasks.ingest.as_of import AsOf
from tasks.ingest.writing import ROW_GROUP

_DAY = 86_400_000_000
_QUERY = "select m.row, f.place from main m asof left join further f on m.k = f.k and m.t >= f.t order by m.row"


def run(*, full: bool) -> Result:
    """A million rows and a million further rows of a fifth as many keys of text, in batches as ingest has them."""
    rows = 1_000_000 if full else 200_000
    chance = np.random.default_rng(0)
    main, further = _rows(chance, rows), _rows(chance, rows)
    began = time.process_time()
    as_of = AsOf([further["k"]], further["t"], _DAY)
    prepared = time.process_time() - began
    parts = [main.slice(first, ROW_GROUP) for first in range(0, rows, ROW_GROUP)]
    found = np.concatenate([as_of.find([part["k"]], part["t"]) for part in parts])
    ours = time.process_time() - began
    peer, theirs = _duckdb(main, further)
    if not np.array_equal(found, theirs):
        raise RuntimeError("DuckDB joins other rows")
    return Result(
        name="join",
        ratio=ours / peer,
        goal=2.0,
        unit="of the processor's seconds of DuckDB",
        ours=rows / ours,
        peer=rows / peer,
        peer_name="DuckDB, ASOF JOIN",
        rows=(
            ("rows, and further rows", f"{rows:,}"),
            ("rows/s of one core", f"{rows / ours:,.0f}"),
            ("of it to prepare the further rows", f"{prepared:.2f} of {ours:.2f} s"),
            ("DuckDB, rows/s of one core", f"{rows / peer:,.0f}"),
            ("rows that found one", f"{np.mean(found >= 0):.1%}"),
        ),
    )


def _rows(chance: np.random.Generator, rows: int) -> pa.Table:
    """Keys of text and moments of one day, no two of which are equal."""
    keys = [f"user-{number:07d}" for number in chance.integers(0, rows // 5, rows)]
    moments = chance.permutation(rows) * (_DAY // rows)
    return pa.table({"k": keys, "t": pa.array(moments).cast(pa.timestamp("us"))})


def _duckdb(main: pa.Table, further: pa.Table) -> tuple[float, np.ndarray]:
    """Seconds, and the place of each row's further row."""
    places = pa.array(range(len(main)))
    with duckdb.connect() as connection:
        connection.execute("set enable_progress_bar = false")
        connection.register("main", main.append_column("row", places))
        connection.register("further", further.append_column("place", places))
        began = time.process_time()
        found = connection.sql(_QUERY).to_arrow_table()
        seconds = time.process_time() - began
    return seconds, np.asarray(found["place"].fill_null(-1))
