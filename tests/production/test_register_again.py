"""A registry that has lost the model in production: real nights, MLflow's own database, and the version made again."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet.cli.main import main
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact
from ratchet.production.by_hand import carry_out
from ratchet.production.diagnosis import diagnose
from ratchet.production.reconcile import reconcile
from ratchet.production.register_again import register_again
from ratchet.production.rollback import rollback
from ratchet.store.file import FileStore
from ratchet.store.ledger import champion, records
from ratchet.tracking.mlflow import track
from tests.evaluate.nights import FIRST, TRAIN, Nights, judgement, registration
from tests.mlflow_server import prepare

WHY = "the disk of MLflow is gone"


@pytest.fixture
def nights(tmp_path: Path, mlflow_database: Path) -> Nights:
    """A first model in production, of which the registry has nothing any more."""
    before = prepare(FileStore(tmp_path / "before"), mlflow_database)
    assert isinstance(before, FileStore)
    made = Nights(folder=tmp_path, store=before)
    for day in (FIRST, FIRST + timedelta(days=1)):
        made.deliver(day)
    assert registration(made.run(FIRST)).promoted
    made.store = without_registry(before, "store", mlflow_database)
    return made


def without_registry(store: FileStore, name: str, mlflow_database: Path) -> FileStore:
    """A copy beside a store whose registry has nothing. MLflow keeps a database open that this process has used."""
    place = store.root.with_name(name)
    shutil.copytree(store.root, place, ignore=shutil.ignore_patterns("mlflow"))
    made = prepare(FileStore(place), mlflow_database)
    assert isinstance(made, FileStore)
    return made


def test_a_lost_version_is_made_again_from_the_store_and_nights_go_on(
    nights: Nights, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, second = nights.store, FIRST + timedelta(days=1)
    stopped = nights.run(second, until="evaluate")
    assert judgement(stopped).reason == "registry-behind"
    assert "ratchet doctor grades --register-again WHY" in judgement(stopped).explanation
    before = records(store, "grades")
    assert main(["doctor", "grades", "--store", store.uri, "--by", "ann", "--register-again", WHY]) == 0
    said = capsys.readouterr().out
    assert "the model in production is registered again, as version 1 of grades" in said
    assert "WRONG" not in said
    assert records(store, "grades") == before
    live = champion(store, "grades")
    assert live is not None

    def look(tracker: object) -> tuple[str, str, bytes]:
        client = tracker.client  # type: ignore[attr-defined] # a Tracker
        version = client.get_model_version_by_alias("grades", "champion")
        path = client.download_artifacts(version.run_id, version.source.rpartition("/artifacts/")[2], str(tmp_path))
        return version.tags["ratchet.model_digest"], version.description, (Path(path) / "record.json").read_bytes()

    digest, description, record = track(store, None, tmp_path / "look", look)
    assert digest == live.model_digest
    assert f"registered again by ann: {WHY}" in description
    assert live.model_digest.encode() in record
    assert all(line.well for line in diagnose(store, None, "grades"))
    assert judgement(nights.run(second, until="evaluate")).baseline_kind == "champion"


def test_the_model_of_before_is_registered_again_to_roll_back_to_it(
    tmp_path: Path, mlflow_database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = prepare(FileStore(tmp_path / "before"), mlflow_database)
    assert isinstance(before, FileStore)
    nights = Nights(folder=tmp_path, store=before, sections={"train": {**TRAIN, "epochs": 5}})
    nights.deliver(FIRST)
    assert registration(nights.run(FIRST)).promoted
    first = champion(before, "grades")
    assert first is not None
    nights.sections = {}
    nights.deliver(FIRST + timedelta(days=1))
    assert registration(nights.run(FIRST + timedelta(days=1))).promoted
    store = without_registry(before, "again", mlflow_database)
    with pytest.raises(ConfigurationError, match=r"`ratchet doctor grades@1 --register-again WHY` first"):
        rollback(store, "grades", by="ann", because="why")
    for given in ("grades", "grades@1"):
        assert main(["doctor", given, "--store", store.uri, "--by", "ann", "--register-again", WHY]) == 0
    assert "the model that was version 1 is registered again, as version 2 of grades" in capsys.readouterr().out
    back = carry_out(store, None, "grades", lambda: rollback(store, "grades", by="ann", because="why"))
    assert (back.record.model_digest, back.reconciled.version) == (first.model_digest, "2")
    assert back.reconciled.agrees
    with pytest.raises(ConfigurationError, match=r"no version 7 of grades was ever in production"):
        register_again(store, None, "grades", version="7", by="ann", because=WHY)


def test_nothing_is_registered_again_that_is_there_or_whose_files_are_not_whole(
    nights: Nights, mlflow_database: Path
) -> None:
    store = nights.store
    live = champion(store, "grades")
    assert live is not None
    folder = live.manifests["train"].rpartition("/")[0]
    (weights,) = [entry.key for entry in store.list(folder) if entry.key.endswith("/weights")]
    whole = store.read(weights)
    store.delete(weights)
    store.create(weights, whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptArtifact):
        register_again(store, None, "grades", by="ann", because=WHY)
    found = reconcile(store, None, "grades", look=True).finding
    assert found is not None
    assert found.name == "registry-behind"
    store.delete(weights)
    store.create(weights, whole)
    with pytest.raises(ConfigurationError, match="--register-again is empty"):
        register_again(store, None, "grades", by="ann", because=" ")
    register_again(store, None, "grades", by="ann", because=WHY)
    with pytest.raises(ConfigurationError, match="nothing is registered again: the registry has"):
        register_again(store, None, "grades", by="ann", because=WHY)
    older = without_registry(store, "older", mlflow_database)
    for entry in [*older.list("versions/grades")]:
        older.delete(entry.key)
    with pytest.raises(ConfigurationError, match="no record of version 1 of grades"):
        register_again(older, None, "grades", by="ann", because=WHY)
