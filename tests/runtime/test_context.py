import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, NoAnswer, Unavailable
from ratchet.contracts.snapshot import Snapshot
from ratchet.runtime.context import Finished
from ratchet.store.publishing import verify
from tests.faults.strace import ROOT, STRACE, needs_strace
from tests.world import World, clicks

EMPTY = Finished(content="c" * 64, summary=Snapshot(table="tables/clicks/1", version=0, days=()))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return clicks(tmp_path, f"mem://{tmp_path}")


def test_a_context_has_the_pipeline_s_files_and_empty_folders_that_vanish(world: World) -> None:
    (world.pipeline / "features.py").write_text("X = 1\n", encoding="utf-8")
    with world.open(world.request("features")) as ctx:
        assert [path.name for path in ctx.folder.iterdir()] == ["features.py"]
        assert not [*ctx.scratch.iterdir(), *ctx.disk.iterdir()]
        folders = (ctx.folder, ctx.scratch, ctx.disk)
    assert not [folder for folder in folders if folder.exists()]


def test_what_is_committed_is_published_with_the_seconds_of_its_phases(world: World) -> None:
    request = world.request("features")
    with world.open(request) as ctx:
        for _ in range(2):
            with ctx.phase("fit"):
                ctx.transaction.add_bytes(f"weights-{len(ctx.transaction.outputs)}", b"w")
        published = ctx.commit(EMPTY)
    assert published.result.fingerprint == request.fingerprint
    assert published.result.timings.keys() == {"fit"}
    assert verify(world.store, published) == []


def test_of_a_stage_that_fails_no_output_is_left(world: World) -> None:
    def fail() -> None:
        with world.open(world.request("features")) as ctx:
            ctx.transaction.add_bytes("weights", b"w")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(world.store.list("published")) == []


@pytest.mark.parametrize(
    ("place", "number", "kind"),
    [
        ("store", errno.ESTALE, NoAnswer),
        ("source", errno.ESTALE, NoAnswer),
        ("store", errno.EIO, Unavailable),
        (None, errno.ESTALE, NoAnswer),
        ("elsewhere", errno.EIO, OSError),
        ("store", errno.ENOSPC, OSError),
    ],
)
def test_a_disk_that_fails_where_a_file_is_read_in_place_is_no_bug(
    tmp_path: Path, place: str | None, number: int, kind: type[Exception]
) -> None:
    """As Arrow, numpy and torch raise it; it ended a stage with 70."""
    world = clicks(tmp_path, (tmp_path / "store").as_uri())
    named = () if place is None else (str(tmp_path / place / "a.npy"),)

    def fail() -> None:
        with world.open(world.request("ingest", planned=(world.source.as_uri(), ()))) as ctx:
            ctx.transaction.add_bytes("weights", b"w")
            raise OSError(number, os.strerror(number), *named)

    with pytest.raises(kind) as raised:
        fail()
    assert type(raised.value) is kind
    assert list(world.store.list("published")) == []


READS = """
import sys
from pathlib import Path
import numpy as np
import polars as pl
import pyarrow.parquet as pq
from ratchet.runtime.logs import StageLog
from tests.world import clicks

folder, how, path = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
world = clicks(folder / "world", (folder / "store").as_uri())
request = world.request("features")
acts = {
    "arrow": lambda: pq.ParquetFile(path).read(),
    "numpy": lambda: np.load(path),
    "polars": lambda: pl.read_parquet(path),
}
try:
    with world.open(request):
        acts[how]()
except Exception as error:
    sys.exit(int(StageLog("features").failure(error)))
"""


@needs_strace
@pytest.mark.parametrize("how", ["arrow", "numpy", "polars"])
@pytest.mark.parametrize("calls", ["openat", "read,pread64,readv,preadv"])
def test_a_library_that_the_kernel_gives_no_bytes_ends_a_stage_with_69(tmp_path: Path, how: str, calls: str) -> None:
    path = tmp_path / "store" / "made" / ("a.npy" if how == "numpy" else "a.parquet")
    path.parent.mkdir(parents=True)
    np.save(path, np.arange(9)) if how == "numpy" else pq.write_table(pa.table({"n": [1]}), path)
    traced = [STRACE or "strace", "-f", "-o", tmp_path / "log", "-P", path, "-e", f"inject={calls}:error=ESTALE"]
    command = [*traced, sys.executable, "-c", READS, tmp_path, how, path]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (ended.returncode, '"no_answer": true' in ended.stdout) == (69, True), (ended.stdout, ended.stderr)


def test_a_damaged_bundle_is_refused(world: World) -> None:
    request = world.request("features")
    entry = world.store.head(request.bundle.key)
    assert entry
    assert world.store.replace(request.bundle.key, b"other", expected=entry.etag)
    with pytest.raises(ConfigurationError, match="is damaged"), world.open(request):
        pass


def test_an_upstream_result_is_the_one_that_the_run_was_planned_with(world: World) -> None:
    with world.open(world.request("ingest", planned=("/data", ()))) as ctx:
        ingested = ctx.commit(EMPTY)
    request = world.request("validate", inputs={"ingest": ingested})
    with world.open(request) as ctx:
        assert ctx.upstream("ingest") == ingested.result
    planned = request.inputs["ingest"].model_copy(update={"content": "d" * 64})
    other = request.model_copy(update={"inputs": {"ingest": planned}})
    with world.open(other) as ctx, pytest.raises(CorruptArtifact, match="is not the ingest result"):
        ctx.upstream("ingest")
