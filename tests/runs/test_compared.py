"""What a cached run compares: what is new, what somebody has written since, and everything once in 30 dates."""

import os
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import pytest

from ratchet.cli.main import main
from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.result import Artifact, PublishedResult
from ratchet.contracts.stages import Stage
from ratchet.runs import work
from ratchet.runs.compared import compared
from ratchet.runs.outcomes import outcome_of, outcomes
from ratchet.runs.stage_record import StageRecord
from ratchet.runs.work import Work, settle
from ratchet.runtime.held_days import table_of
from ratchet.store import publishing
from ratchet.store.artifacts import read_bytes
from ratchet.store.file import FileStore
from ratchet.store.publishing import discard_damaged, verify
from tasks.ingest import held
from tests.runs.test_day_records import plan as new_run
from tests.runs.test_requests import plan
from tests.store_calls import counted_calls
from tests.world import LAST, World, clicks

DAYS = 12


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, dict[Stage, PublishedResult]]:
    world = clicks(tmp_path_factory.mktemp("nights"), source={"window_days": DAYS})
    world.put_window(count=20)
    ingest = world.run("ingest")
    validate = world.run("validate", inputs={"ingest": ingest})
    features = world.run("features", inputs={"ingest": ingest, "validate": validate})
    return world, {"ingest": ingest, "features": features}


def planned(world: World, day: date = LAST) -> RunPlan:
    return plan().model_copy(update={"spec": world.spec, "data_date": day})


def etags(world: World, stage: Stage, day: date = LAST) -> Callable[[], dict[str, str]]:
    return partial(lambda: dict(compared(world.store, planned(world, day), stage)))


@pytest.mark.parametrize("stage", ["ingest", "features"])
def test_a_cached_run_asks_once_and_compares_what_is_new(
    nights: tuple[World, dict[Stage, PublishedResult]], stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, results = nights
    found, read = results[stage], list[str]()
    real = publishing.fetch
    with counted_calls(monkeypatch) as calls, monkeypatch.context() as patch:
        known = etags(world, stage)()
        patch.setattr(publishing, "fetch", lambda store, one, folder: (read.append(one.key), real(store, one, folder)))
        assert verify(world.store, found, compared=known) == []
    own = {one.key for one in found.result.outputs.values() if one.key.startswith(found.key.rpartition("/")[0])}
    assert own <= {*read}
    assert not {*read} & known.keys()
    assert len(read) < 0.3 * len(found.result.outputs)
    assert len(calls) <= 4 + len(read)


def test_each_file_of_a_day_is_compared_on_one_of_thirty_dates(
    nights: tuple[World, dict[Stage, PublishedResult]],
) -> None:
    world, results = nights
    left_out: Counter[str] = Counter()
    referred = {one.key for one in results["features"].result.outputs.values() if ".day/" in one.key}
    for back in range(30):
        left_out.update(referred - etags(world, "features", LAST - timedelta(days=back))().keys())
    assert left_out == dict.fromkeys(referred, 1)


def test_what_somebody_wrote_is_found_at_once(nights: tuple[World, dict[Stage, PublishedResult]]) -> None:
    world, results = nights
    found = results["features"]
    (name, artifact), *_ = ((name, one) for name, one in found.result.outputs.items() if ".day/" in one.key)
    path, known = local(world, artifact), etags(world, "features")
    assert discard_damaged(world.store, found.key.rpartition("/")[0], compared=known) == []
    data, times = path.read_bytes(), path.stat()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 1000))
    prefix = found.key.rpartition("/")[0]
    assert discard_damaged(world.store, prefix, compared=known) == [name]
    path.write_bytes(data)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = clicks(tmp_path_factory.mktemp("small"), validate={"drift": None})
    (made.pipeline / "pipeline.yaml").write_text("name: clicks\n", encoding="utf-8")
    made.put_window(count=20)
    return made


def rot(world: World, artifact: Artifact) -> None:
    """A disk loses a bit: nobody has written the file."""
    path = local(world, artifact)
    data, times = path.read_bytes(), path.stat()
    with path.open("r+b") as file:
        file.seek(len(data) - 20)
        file.write(bytes([data[-20] ^ 1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def night(world: World, stages: tuple[Stage, ...] = ("ingest", "validate", "features")) -> RunPlan:
    """A run of the date, as an orchestrator runs it."""
    made = new_run(world, LAST)
    world.run_id = made.run_id
    for stage in stages:
        with StageRecord(world.store, made, stage) as record:
            found = settle(world.store, made, stage, "first", on_event=print)
            if isinstance(found, Work):
                found = outcome_of(world.finish(found.request)[1], cached=False, because=found.because)
            record.end(found)
    return made


def ended(world: World, run: RunPlan, stage: Stage) -> Outcome:
    return outcomes(world.store, "clicks", run.run_id)[stage]


def files(world: World, run: RunPlan, stage: Stage) -> list[Artifact]:
    result = ended(world, run, stage).result
    assert result is not None
    return [*result.outputs.values()]


def refused(world: World, lost: Artifact) -> None:
    """A run of the date reads a file that has lost a bit, and fails."""
    failing = night(world, ("ingest", "validate"))
    with pytest.raises(CorruptArtifact), StageRecord(world.store, failing, "features"):
        read_bytes(world.store, lost)


def test_a_run_again_makes_what_a_reader_refused_and_the_next_one_compares_little(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, of_days = night(small), ("ingest", "features")
    for stage in of_days:
        lost = next(one for one in files(small, first, stage) if one.key in etags(small, stage)())
        rot(small, lost)
    unknown = night(small)
    assert all(ended(small, unknown, stage).cached for stage in of_days), "no reader has refused a file"
    refused(small, lost)
    again = night(small)
    for stage in of_days:
        assert not ended(small, again, stage).cached
        for one in files(small, again, stage):
            read_bytes(small.store, one)
    with StageRecord(small.store, again, "report") as record:
        record.end(Outcome(stage="report", state="done"))
    trusted = list[Stage]()
    monkeypatch.setattr(work, "compared", lambda *given: (trusted.append(given[-1]), compared(*given))[1])
    night(small)
    assert trusted == ["ingest", "validate", "features"]


def test_days_that_a_stage_refused_to_read_are_made_again_by_its_next_try(small: World) -> None:
    first = night(small)
    lost = next(one for one in files(small, first, "features") if one.key in etags(small, "features")())
    rot(small, lost)
    small.store.delete(ended(small, first, "features").manifest or "")  # the stage failed, so it has no result
    refused(small, lost)
    for one in files(small, night(small), "features"):
        read_bytes(small.store, one)


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A pipeline whose store is reached over a network."""
    monkeypatch.setattr(FileStore, "local", lambda *_: None)
    made = clicks(tmp_path, validate={"drift": None})
    made.put_window(count=20)
    return made


def overwrite(world: World, artifact: Artifact) -> None:
    """Somebody writes other bytes of the same number."""
    data, entry = world.store.read(artifact.key), world.store.head(artifact.key)
    assert entry is not None
    assert world.store.replace(artifact.key, data[:-20] + bytes([data[-20] ^ 1]) + data[-19:], expected=entry.etag)


def test_over_a_network_a_day_that_was_taken_by_its_size_does_not_count_as_compared(far: World) -> None:
    ingest = far.run("ingest")
    validate = far.run("validate", inputs={"ingest": ingest})
    features = far.run("features", inputs={"ingest": ingest, "validate": validate})
    lost = next(one for one in features.result.outputs.values() if one.key in etags(far, "features")())
    overwrite(far, lost)
    for _ in range(2):  # found by its size, then by its etag
        features = far.run("features", inputs={"ingest": ingest, "validate": validate})
        assert lost in features.result.outputs.values(), "readers compare digests"
        known = etags(far, "features")
        assert lost.key not in known()
        assert len(known()) > len(features.result.outputs) / 2
    assert discard_damaged(far.store, features.key.rpartition("/")[0], compared=known)


def test_over_a_network_a_held_day_counts_as_compared_once_it_was(far: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = far.run("ingest")
    lost = next(iter(first.result.outputs.values()))
    overwrite(far, lost)
    index = paths.snapshot_index(table_of(far.spec))
    entry = far.store.head(index)
    assert entry is not None
    far.store.replace(index, b"cut", expected=entry.etag)
    second = far.run("ingest")
    assert lost in second.result.outputs.values()
    assert lost.key not in etags(far, "ingest")()
    assert discard_damaged(far.store, second.key.rpartition("/")[0], compared=etags(far, "ingest"))
    monkeypatch.setattr(held, "is_turn", lambda *_: True)
    third = {one.key for one in far.run("ingest").result.outputs.values()}
    assert etags(far, "ingest")().keys() == third - {lost.key}, "each day is compared once when it is its turn"


def test_verify_compares_everything_and_names_what_is_damaged(
    nights: tuple[World, dict[Stage, PublishedResult]], capsys: pytest.CaptureFixture[str]
) -> None:
    world, results = nights
    outputs = results["ingest"].result.outputs
    name, artifact = next(iter(outputs.items()))
    path = local(world, artifact)
    data, given = path.read_bytes(), ["verify", "clicks", "--store", world.store.uri]
    assert main(given) == 0
    assert ", 0 damaged" in capsys.readouterr().out
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert main(given) == 64
    said = capsys.readouterr().out
    assert "rows.parquet damaged" in said or f"{name} damaged" in said
    path.write_bytes(data)
    assert main(given) == 0


def local(world: World, artifact: Artifact) -> Path:
    path = world.store.local(artifact.key)
    assert path is not None
    return path
