"""encode: rows of 20 columns that features encodes in a second, on two threads, and the memory that it takes.

A made-up day from its file in the snapshot to its arrays in a folder, in a process of its own. The goal is a million
rows in a second, for a day of ten million rows that fits into 2 GiB; memory counts with the pages of mapped files. Once
without groups and once sorted by a group; the slower one counts. The quick variant has a million rows.
"""

import json
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from benchmarks.made_up_day import COLUMNS, write_day
from benchmarks.measure import Result, peak_memory
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.model.made_columns import MadeDerive
from tasks.features.day import encode_day

_THREADS, _GOAL = 2, 1_000_000
_MEMORY = 2 << 30


def run(*, full: bool) -> Result:
    """One day, twice."""
    rows = 10_000_000 if full else 1_000_000
    with tempfile.TemporaryDirectory(prefix="ratchet-") as folder:
        write_day(Path(folder) / "day.parquet", rows, seed=0)
        plain, grouped = (_measured(Path(folder), role) for role in ("ignore", "group"))
    slower = max(plain["seconds"], grouped["seconds"])
    peak = max(plain["peak"], grouped["peak"])
    if peak > _MEMORY:
        raise RuntimeError(f"{peak / 2**30:.2f} GiB were needed, of {_MEMORY / 2**30:.0f}")
    return Result(
        name="encode",
        ratio=_GOAL / (rows / slower),
        goal=1.0,
        unit="of the seconds that the goal allows",
        ours=rows / slower,
        peer=_GOAL,
        peer_name="rows/s, the goal",
        rows=tuple(
            (f"{rows:,} rows, {name}", f"{rows / one['seconds']:,.0f} rows/s; {one['peak'] / 2**30:.2f} GiB at most")
            for name, one in (("without groups", plain), ("sorted by group", grouped))
        ),
    )


def _measured(folder: Path, role: str) -> dict[str, float]:
    call = [sys.executable, "-m", "benchmarks.encode", str(folder), role]
    found: dict[str, float] = json.loads(subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return found


def _encode(folder: Path, role: str) -> dict[str, float]:
    """Encode the day of a folder. role: of its key."""
    spec = PipelineSpec.model_validate(
        {
            "name": "encode",
            "source": {"kind": "files", "uri": "rows/{date}.parquet"},
            "columns": {**COLUMNS, "key": {**COLUMNS["key"], "role": role}},
            "train": {"objective": "binary"},
        }
    )
    with tempfile.TemporaryDirectory(dir=folder) as arrays:
        begin = time.perf_counter()
        day = date(2026, 1, 1)
        encode_day(folder / "day.parquet", spec, MadeDerive(()), day=day, folder=Path(arrays), threads=_THREADS)
        seconds = time.perf_counter() - begin
    return {"seconds": seconds, "peak": peak_memory()}


if __name__ == "__main__":
    print(json.dumps(_encode(Path(sys.argv[1]), sys.argv[2])))
