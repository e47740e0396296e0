"""A made-up day of raw rows: ten numbers, eight columns of text with 3 to 100,000 values, a key and a label."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.ingest.writing import write

_NUMBERS = 10
_VALUES = (3, 10, 50, 200, 1_000, 5_000, 20_000, 100_000)
_AT_ONCE = 100_000
COLUMNS: dict[str, Any] = {
    **{f"x{number}": {"role": "numeric", "type": "float64"} for number in range(_NUMBERS)},
    **{f"c{number}": {"role": "categorical", "type": "string"} for number in range(len(_VALUES))},
    "key": {"role": "ignore", "type": "int64"},
    "label": {"role": "label", "type": "int64"},
}
"""Of a pipeline file."""
_ARROW = {"float64": pa.float64(), "string": pa.string(), "int64": pa.int64()}


def write_day(path: Path, rows: int, seed: int) -> None:
    """Write the day as one Parquet file."""
    schema = pa.schema([(name, _ARROW[column["type"]]) for name, column in COLUMNS.items()])
    write(_batches(rows, seed, schema), schema, path)


def _batches(rows: int, seed: int, schema: Any) -> Iterator[Any]:
    """Half of the numbers are float32, half have two decimals; frequent values are far more frequent than rare ones."""
    draw = np.random.default_rng(seed)
    words = [np.array([f"{size}-value-{each}" for each in range(size)], object) for size in _VALUES]
    for begin in range(0, rows, _AT_ONCE):
        count = min(_AT_ONCE, rows - begin)
        normal = draw.standard_normal((_NUMBERS, count))
        half = _NUMBERS // 2
        numbers = [*np.round(100 * normal[:half], 2), *normal[half:].astype(np.float32).astype(np.float64)]
        places = [np.minimum(draw.pareto(1.0, count) * len(each) / 20, len(each) - 1).astype(int) for each in words]
        texts = [each[place] for each, place in zip(words, places, strict=True)]
        arrays = [*numbers, *texts, draw.integers(0, max(rows // 10, 1), count), draw.integers(0, 2, count)]
        yield pa.RecordBatch.from_arrays([pa.array(each) for each in arrays], schema=schema)
