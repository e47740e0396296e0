"""The records of versions: written once, found by number and by digest, and refused when a byte of them has changed."""

import uuid
from datetime import UTC, datetime

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.result import Artifact
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.stage_environment import StageEnvironment
from ratchet.contracts.stages import Stage
from ratchet.contracts.summaries import Judgement, TrainedModel
from ratchet.contracts.version_record import RecordedStage, VersionRecord
from ratchet.store.memory import MemoryStore
from ratchet.store.version_records import find_record, keep_record, read_record, versions
from tests.runs.test_requests import CONTENT, DAY, JUDGED, TRAINED, plan

FILE = Artifact(key="published/small/train/0a/x/weights", sha256=CONTENT, bytes=1)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def record(version: str = "1", made: str = CONTENT) -> VersionRecord:
    run = plan()
    return VersionRecord(
        model="small", version=version, digest=made, mlflow_run_id="m", registered=datetime.now(UTC), pipeline="small",
        run_id="r", kind="local", data_date=DAY, started_by="", promotion=run.promotion, spec=run.spec,
        columns=tuple(run.spec.columns), overrides={}, bundle=run.bundle, files={}, pins=run.pins, seed=0,
        snapshot=Snapshot(table="tables/small/1", version=0, days=()), excluded=(), let_in=(), arrays={}, fitted=None,
        trained=TrainedModel.model_validate(TRAINED), refit=None, weights={"train": FILE}, traces={},
        gate=run.spec.gate, judgement=Judgement.model_validate(JUDGED), scores=None, stages={},
    )  # fmt: skip


def recorded(manifest: str) -> RecordedStage:
    here = StageEnvironment(python="3.11.7", platform="Linux", libraries={})
    return RecordedStage(
        manifest=manifest, fingerprint=CONTENT, content=CONTENT, parts={}, environment=here, attempt="a",
        finished=datetime.now(UTC), timings={},
    )  # fmt: skip


def test_a_record_is_written_once_and_read_with_its_columns_in_their_order(store: MemoryStore) -> None:
    kept = keep_record(store, record())
    assert keep_record(store, record()) == kept
    assert list(read_record(store, "small", "1").spec.columns) == ["country", "x", "y"]
    turned = record().model_copy(update={"version": "2", "columns": ("y", "x", "country")})
    keep_record(store, turned)
    assert list(read_record(store, "small", "2").spec.columns) == ["y", "x", "country"]


def test_a_version_whose_results_were_collected_is_recorded_by_the_run_that_makes_its_model_again(
    store: MemoryStore,
) -> None:
    """So what a person promotes is loaded from files that are there."""
    for run in ("first", "second", "third"):
        for stage in ("train", "evaluate"):
            store.create(f"{stage} of {run}", b"{}")

    def kept_of(run: str) -> str:
        stages: dict[Stage, RecordedStage] = {
            stage: recorded(f"{stage} of {run}") for stage in ("train", "evaluate", "validate")
        }
        keep_record(store, record().model_copy(update={"stages": stages, "run_id": run}))
        found = find_record(store, "small", "1", CONTENT)
        assert found is not None
        return found.run_id

    assert [kept_of("first"), kept_of("second")] == ["first", "first"]
    store.delete("evaluate of first")
    assert [kept_of("second"), kept_of("third")] == ["second", "second"]
    key = paths.version_record("small", "1", CONTENT)
    entry = store.head(key)
    assert entry
    assert store.replace(key, store.read(key)[:-9], expected=entry.etag)
    with pytest.raises(CorruptArtifact, match=r"take record\.json of the version in MLflow"):
        kept_of("third")


def test_a_number_that_the_registry_gave_twice_has_a_record_for_each_model(store: MemoryStore) -> None:
    other = digest(b"other")
    for made in (CONTENT, other):
        keep_record(store, record(made=made))
    assert {read_record(store, "small", "1", made).digest for made in (CONTENT, other)} == {CONTENT, other}
    assert versions(store, "small") == ["1"]


def test_a_record_that_is_written_again_becomes_no_newer_one(store: MemoryStore) -> None:
    for number, made in (("1", CONTENT), ("1", digest(b"other")), ("9", CONTENT), ("10", CONTENT)):
        keep_record(store, record(number, made))
    key = paths.version_record("small", "1", CONTENT)
    entry = store.head(key)
    assert store.replace(key, store.read(key), expected=entry.etag if entry else None)
    assert versions(store, "small") == ["1", "9", "10"]
    assert read_record(store, "small", "1").digest == digest(b"other")
    found = find_record(store, "small", "7", CONTENT)
    assert found is not None
    assert found.version == "10"


def test_what_is_missing_or_damaged_is_named(store: MemoryStore) -> None:
    with pytest.raises(ConfigurationError, match="versions of earlier releases have no record"):
        read_record(store, "small", "1")
    data = keep_record(store, record())
    with pytest.raises(ConfigurationError, match="with the digest 0000"):
        read_record(store, "small", "1", "0" * 64)
    for key, given, said in (
        (paths.version_record("small", "1", CONTENT), data.replace(b"small", b"SMALL"), "is damaged"),
        (paths.version_record("small", "7", CONTENT), data, "is the record of small version 1"),
    ):
        entry = store.head(key)
        store.replace(key, given, expected=entry.etag if entry else None)
        with pytest.raises(CorruptArtifact, match=said):
            read_record(store, "small", paths.recorded_version(key))


def test_a_recorded_stage_names_our_modules_and_an_environment_what_differs() -> None:
    here = StageEnvironment(python="3.11.7", platform="Linux", libraries={"torch": "2.13.0", "numpy": "2.4.6"})
    then = here.model_copy(update={"libraries": {"torch": "2.12.1"}, "threads": 2})
    assert then.differences(here) == [
        "numpy is 2.4.6 here and was absent then",
        "threads is absent here and was 2 then",
        "torch is 2.13.0 here and was 2.12.1 then",
    ]
    stage = RecordedStage(
        manifest="m", fingerprint=CONTENT, content=CONTENT, parts={"code.tasks.train.loop": "0", "data_date": "x"},
        environment=here, attempt="a", finished=datetime.now(UTC), timings={},
    )  # fmt: skip
    assert stage.code() == {"tasks.train.loop": "0"}
