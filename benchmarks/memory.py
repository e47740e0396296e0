"""memory: the peak of a night's ingest, validate and features with a window of 30 days, against the smallest window.

Made-up days of 20 columns. Earlier nights have read them but the newest one; then one night runs in a process of its
own, and its greatest resident memory counts, pages of mapped files too. The smallest window has three days: one to
train on, one to validate, one to hold out. The quick variant has 20,000 rows a day, --full 200,000.
"""

import json
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from benchmarks.made_up_nights import LAST, night, world_of
from benchmarks.measure import Result, peak_memory

_SMALLEST, _MONTH = 3, 30


def run(*, full: bool) -> Result:
    """Two windows, one after the other."""
    rows = 200_000 if full else 20_000
    peaks = {window: _peak(window, rows) for window in (_SMALLEST, _MONTH)}
    return Result(
        name="memory",
        ratio=peaks[_MONTH] / peaks[_SMALLEST],
        goal=1.5,
        unit="of the peak with 3 days",
        ours=peaks[_MONTH],
        peer=peaks[_SMALLEST],
        peer_name="MiB with 3 days",
        rows=tuple((f"{window} days of {rows:,} rows", f"{peak:,.0f} MiB") for window, peak in peaks.items()),
    )


def _peak(window: int, rows: int) -> float:
    with tempfile.TemporaryDirectory(prefix="ratchet-") as folder:
        for when in ("before", "now"):
            call = [sys.executable, "-m", "benchmarks.memory", folder, str(window), str(rows), when]
            made = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True).stdout
    return float(json.loads(made))


def _night(folder: Path, window: int, rows: int, when: str) -> float:
    world = world_of(folder, window=window, rows=rows, more=1)
    if when == "before":
        night(world, LAST - timedelta(days=1))
    else:
        world.number = 100  # other runs than those before
        night(world, LAST)
    return peak_memory() / 2**20


if __name__ == "__main__":
    print(json.dumps(_night(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
