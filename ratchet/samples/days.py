"""A synthetic log on disk: one Parquet file for each day, written in one step."""

import math
import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.contracts.errors import ConfigurationError


def write_days(out: Path, *, days: int, end: date, table: Callable[[date], pa.Table]) -> Iterator[Path]:
    """Write `<out>/date=YYYY-MM-DD/part-0.parquet` for the last `days` days, `end` included. Yields each path.

    table: returns a day's rows. A file that already has the same bytes keeps its modification time.
    Raises ConfigurationError if days is below 1.
    """
    if days < 1:
        raise ConfigurationError(f"days: {days} is below 1", remedy="give the number of days to write, 1 or more")
    for back in range(days - 1, -1, -1):
        day = end - timedelta(days=back)
        path = out / f"date={day:%Y-%m-%d}" / "part-0.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(table(day), sink, compression="zstd")
        _replace(path, sink.getvalue().to_pybytes())
        yield path


def generator(seed: int, purpose: str, day: date | None = None) -> np.random.Generator:
    """Random numbers that depend only on a seed (0 or more), a purpose, and a day if there is one."""
    return np.random.default_rng([seed, *purpose.encode(), 0 if day is None else day.toordinal()])


def volume(seed: int, day: date, rows_per_day: int) -> int:
    """The rows of a day: rows_per_day, plus or minus 4%, at least 1.

    Raises ConfigurationError if rows_per_day is below 1.
    """
    if rows_per_day < 1:
        raise ConfigurationError(f"rows: {rows_per_day} a day is below 1", remedy="give 1 or more rows a day")
    return max(1, math.floor(rows_per_day * (1 + generator(seed, "volume", day).uniform(-0.04, 0.04)) + 0.5))


def moments(day: date, seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> pa.Array:
    """Timestamps (us, no zone) at seconds after the day's midnight."""
    micros = (seconds * 1e6).astype("timedelta64[us]")
    return pa.array(np.datetime64(day.isoformat(), "us") + micros, type=pa.timestamp("us"))


def _replace(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".part-0-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)  # mkstemp's 0600 would hide it from a container's user
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
