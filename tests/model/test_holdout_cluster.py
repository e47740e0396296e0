"""evaluate.cluster from the rows of the snapshot to the units of the verdict."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts.fingerprint import digest
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.result import Artifact
from ratchet.contracts.snapshot import Snapshot, SnapshotDay
from ratchet.metrics.metrics import measure
from ratchet.model import holdout
from ratchet.model.holdout import Holdout
from ratchet.store.memory import MemoryStore
from tests.shop import SPEC
from tests.world import LAST

USERS = 20
COLUMNS: dict[str, Any] = {
    "user": {"role": "ignore", "type": "string"},
    "x": {"role": "numeric", "type": "float64"},
    "y": {"role": "label", "type": "int64", "in": [0, 1]},
}


def held(folder: Path, *, grouped: bool, **evaluate: Any) -> Holdout:
    """Two days with 100 rows each, of the same 20 users; the last row of a day has no user."""
    columns = {**COLUMNS, **({"query": {"role": "group", "type": "int64"}} if grouped else {})}
    document = {
        **SPEC,
        "columns": columns,
        "evaluate": {"holdout_days": 2, **evaluate},
        "train": {"objective": "binary"},
    }
    spec = PipelineSpec.model_validate(document)
    store, days = MemoryStore(uuid4().hex), []
    draw = np.random.default_rng(0)
    for back in (1, 0):
        day = LAST - timedelta(days=back)
        table = {
            "user": [f"u{row % USERS}" for row in range(99)] + [None],
            "x": draw.normal(size=100),
            "y": draw.integers(0, 2, 100),
            **({"query": np.arange(100) // 5} if grouped else {}),
        }
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(table), sink)
        data = sink.getvalue().to_pybytes()
        store.create(f"{day}.parquet", data)
        file = Artifact(key=f"{day}.parquet", sha256=digest(data), bytes=len(data), rows=100)
        days.append(SnapshotDay(day=day, file=file, source=digest(b"")))
    snapshot = Snapshot(table="t", version=0, days=tuple(days))
    return holdout.read(store, spec, snapshot, tuple(day.day for day in days), folder)


@pytest.mark.parametrize(
    ("grouped", "evaluate", "units"),
    [
        (False, {}, 200),
        (True, {}, 40),
        (False, {"cluster": "user"}, USERS + 2),
        (True, {"cluster": "user"}, 4),
    ],
)
def test_a_unit_of_the_verdict_is_a_user_over_all_days(
    grouped: bool, evaluate: dict[str, Any], units: int, tmp_path: Path
) -> None:
    """A row without a user is its own. A query has five users, who are one unit then, as those of its other days are."""
    found = held(tmp_path, grouped=grouped, **evaluate)
    measured = measure("brier", found.rows, np.full(200, 0.5))
    assert measured is not None
    assert len(measured.sums) == units
    assert "user" in found.frame
