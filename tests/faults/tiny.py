"""A pipeline whose whole night computes for a second: 300 rows a day, of which a model learns its one column."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DAYS = 3
_PIPELINE = """\
name: tiny
source: {{kind: files, uri: "{folder}/{{date}}.parquet", window_days: 3}}
columns:
  group: {{role: group, type: int64}}
  x: {{role: numeric, type: float64}}
  label: {{role: label, type: int64, in: [0, 1]}}
train: {{objective: binary, epochs: 2, batch_size: 64, learning_rate: 5.0e-2, model: {{kind: mlp, hidden: [4]}}}}
"""


def write_tiny(folder: Path, last: date) -> Path:
    """Write its days up to the last one, and its file. Returns the pipeline's folder."""
    random = np.random.default_rng(0)
    for back in range(DAYS):
        x = random.normal(size=300)
        rows = {"group": np.arange(300), "x": x, "label": (x + random.normal(size=300) / 4 > 0).astype("int64")}
        pq.write_table(pa.table(rows), folder / f"{last - timedelta(days=back)}.parquet")
    pipeline = folder / "tiny"
    pipeline.mkdir(exist_ok=True)
    (pipeline / "pipeline.yaml").write_text(_PIPELINE.format(folder=folder), encoding="utf-8")
    return pipeline
