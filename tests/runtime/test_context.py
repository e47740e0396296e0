from pathlib import Path

import pytest

from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.snapshot import Snapshot
from ratchet.runtime.context import Finished
from ratchet.store.publishing import verify
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
