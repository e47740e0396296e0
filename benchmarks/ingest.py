"""ingest: bytes of a day that ingest reads, checks, writes into the snapshot and digests in a second.

A made-up day of 20 columns as one Parquet file, in a folder, against the slower of a copy of this file with fsync and a
sha256 of it; and, for the table alone, against pyarrow that reads the file and writes it as ingest does, which is the
least that a snapshot with types, row groups and bytes of its own can cost. The median of three, one after the other.
The quick variant has 200,000 rows, --full ten million.
"""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import measure
from benchmarks.made_up_day import write_day
from benchmarks.made_up_nights import LAST, night, source_file, world_of
from benchmarks.measure import Result

_ROUNDS = 3
_GOAL = 0.8


def run(*, full: bool) -> Result:
    """One day, read three times by pipelines that have not read it."""
    rows = 10_000_000 if full else 200_000
    with tempfile.TemporaryDirectory(prefix="ratchet-") as place:
        folder = Path(place)
        world = world_of(folder, window=3, rows=2)
        night(world, LAST, until="ingest")  # what is imported only once
        file = source_file(world, LAST)
        write_day(file, rows, seed=0)
        timed: dict[str, list[float]] = {"ingest": [], "copy": [], "sha256": [], "rewrite": []}
        for number in range(_ROUNDS):
            world.document["name"] = f"pipeline-{number}"
            timed["ingest"].append(measure.seconds(lambda: night(world, LAST, until="ingest")))
            timed["copy"].append(measure.seconds(lambda: _copy(file, folder / "copy")))
            timed["sha256"].append(measure.seconds(lambda: _digest(file)))
            timed["rewrite"].append(measure.seconds(lambda: _rewrite(file, folder / "copy")))
        size = file.stat().st_size
    seconds = {name: median(each) for name, each in timed.items()}
    slower = max(seconds["copy"], seconds["sha256"])
    shown = [(name, f"{size / each / 1e6:,.0f} MB/s, {rows / each:,.0f} rows/s") for name, each in seconds.items()]
    return Result(
        name="ingest",
        ratio=_GOAL * seconds["ingest"] / slower,
        goal=1.0,
        unit="of the seconds that the goal allows",
        ours=size / seconds["ingest"] / 1e6,
        peer=size / slower / 1e6,
        peer_name="MB/s, the slower of a copy and a sha256",
        rows=(("a day", f"{rows:,} rows of 20 columns, {size / 1e6:,.0f} MB"), *shown),
    )


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb") as copied:
        os.fsync(copied.fileno())


def _rewrite(source: Path, target: Path) -> None:
    read = pq.ParquetFile(source)
    texts = [field.name for field in read.schema_arrow if pa.types.is_string(field.type)]
    with pq.ParquetWriter(
        target, read.schema_arrow, compression="zstd", compression_level=1, use_dictionary=texts
    ) as writer:
        for group in range(read.num_row_groups):
            writer.write_table(read.read_row_group(group))


def _digest(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
