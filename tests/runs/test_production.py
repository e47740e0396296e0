"""What stays in production, seen by whole nights: reruns, rebuilds and lost files after two models were promoted."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from ratchet.contracts import paths
from ratchet.store.file import FileStore
from ratchet.store.ledger import champion, records
from ratchet.tracking.registry import CHAMPION, DIGEST
from tests.runs.nights import CallResult, ratchet, run, sample

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("production")]

MODEL = "search-ranking"
FIRST = ("--from", "2026-03-19", "--to", "2026-03-19", "--promote", "auto")
BETTER = ("--set", "train.epochs=4", "--set", "train.batch_size=256", "--set", "gate.confidence=60%")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(sample(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def two_champions(data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store after two nights, both promoted. To be copied."""
    store = tmp_path_factory.mktemp("two") / "store"
    for night in (FIRST, BETTER):
        ended = run(MODEL, data, str(store), *night)
        assert "in production" in ended.err, ended.err
    assert [record.data_date.day for record in records(FileStore(store), MODEL)] == [19, 20]
    return store


@pytest.fixture
def store(two_champions: Path, tmp_path: Path) -> FileStore:
    shutil.copytree(two_champions, tmp_path / "store")
    return FileStore(tmp_path / "store")


def call(store: FileStore, *arguments: str) -> CallResult:
    return ratchet(*arguments, "--store", str(store.root))


def night(store: FileStore, data: str, *more: str) -> CallResult:
    """The night of the second champion once more."""
    ended = run(MODEL, data, str(store.root), *BETTER, *more)
    assert ended.code == 0, ended.err
    return ended


def alias(store: FileStore) -> str:
    """The digest of the model that the alias names."""
    with sqlite3.connect(store.root / paths.tracking_database()) as database:
        found = database.execute(
            "select value from model_version_tags join registered_model_aliases using (workspace, name, version)"
            " where alias = ? and key = ?",
            (CHAMPION, DIGEST),
        ).fetchone()
    database.close()
    return str(found[0])


def bend(store: FileStore, version: int) -> None:
    with sqlite3.connect(store.root / paths.tracking_database()) as database:
        database.execute("update registered_model_aliases set version = ?", (version,))
    database.close()


def live(store: FileStore) -> str:
    found = champion(store, MODEL)
    assert found is not None
    return found.model_digest


@pytest.mark.parametrize("how", [("--rebuild",), ("--promote", "never"), ("--promote", "never", "--rebuild")])
def test_no_rerun_brings_back_a_model_that_was_rolled_back(store: FileStore, data: str, how: tuple[str, ...]) -> None:
    first = records(store, MODEL)[0].model_digest
    back = call(store, "rollback", MODEL, "--because", "clicks fell")
    assert back.code == 0, back.err
    assert "production: version 2 -> version 1" in back.out
    assert alias(store) == live(store) == first
    again = night(store, data, *how)
    assert (again.json["production"]["live"], again.json["production"]["version"]) == (False, "1")
    assert "not in production" in again.err
    assert [record.action for record in records(store, MODEL)] == ["promote", "promote", "rollback"]
    assert alias(store) == first


def test_after_a_rollback_the_cached_night_does_not_claim_to_be_in_production(store: FileStore, data: str) -> None:
    assert call(store, "rollback", MODEL, "--because", "clicks fell").code == 0
    again = night(store, data)
    assert "model search-ranking version 2: in production" not in again.err
    assert "was rolled back by" in again.err
    page = Path(again.json["report"]).read_text(encoding="utf-8")
    assert "In production: version 2" not in page
    shown = call(store, "nights", MODEL, "--json").json
    assert [(line["promoted"], line["live"]) for line in shown] == [(True, True), (True, False)]


def test_a_bent_alias_is_set_right_by_a_night_that_is_cached_from_first_to_last(store: FileStore, data: str) -> None:
    bend(store, 1)
    again = night(store, data)
    assert all(stage["cached"] for stage in again.json["stages"])
    assert "named version 1, and was set to version 2, as record 2 of the ledger says" in again.err
    assert alias(store) == live(store)
    assert again.json["production"]["live"] is True


def test_an_empty_ledger_under_a_living_alias_is_no_first_night(store: FileStore, data: str) -> None:
    """Nothing is promoted, and the command of the remedy begins the ledger again with what is served."""
    shutil.rmtree(store.root / paths.ledger(MODEL))
    served = alias(store)
    judged = night(store, data).json
    assert judged["verdict"] == "inconclusive"
    assert "the store has no ledger of search-ranking" in judged["reason"]
    assert judged["production"]["finding"]["name"] == "ledger-lost"
    assert "`ratchet promote search-ranking@2 --because WHY`" in judged["reason"]
    assert (records(store, MODEL), alias(store)) == ((), served)
    begun = call(store, "promote", f"{MODEL}@2", "--because", "the ledger is lost", "--by", "ann")
    assert begun.code == 0, begun.err
    assert live(store) == alias(store) == served
    assert call(store, "doctor", MODEL).code == 0


@pytest.mark.parametrize("file", ["00000002.json", "head.json"])
def test_a_cut_ledger_is_named_and_another_champion_is_never_taken_in_silence(
    store: FileStore, data: str, file: str
) -> None:
    key = f"{paths.ledger(MODEL)}/{file}"
    content, served = store.read(key), alias(store)
    store.delete(key)
    ended = night(store, data)
    assert ended.json["verdict"] == "inconclusive"
    assert ended.json["production"]["finding"]["name"] == "ledger-damaged"
    assert f"{file} is missing" in ended.json["reason"]
    assert alias(store) == served
    assert call(store, "doctor", MODEL).code == 1
    store.create(key, content)
    assert call(store, "doctor", MODEL).code == 0


def test_an_older_registry_is_named_and_its_numbers_lead_to_no_other_model(store: FileStore, data: str) -> None:
    (store.root / paths.tracking_database()).unlink()
    ended = night(store, data).json
    assert (ended["verdict"], ended["production"]["finding"]["name"]) == ("inconclusive", "registry-behind")
    assert "has no version with the model" in ended["reason"]


def test_a_rolled_back_version_returns_by_hand_once_it_is_released(store: FileStore, data: str) -> None:
    second = live(store)
    assert call(store, "rollback", f"{MODEL}@1", "--because", "clicks fell").code == 0
    refused = call(store, "promote", f"{MODEL}@2", "--because", "it was the logging")
    assert refused.code == 64
    assert "release it first" in refused.err
    assert call(store, "release", f"{MODEL}@2", "--because", "it was the logging").code == 0
    promoted = call(store, "promote", f"{MODEL}@2", "--because", "it was the logging", "--by", "ann")
    assert promoted.code == 0, promoted.err
    assert live(store) == alias(store) == second
    assert night(store, data).json["production"]["live"] is True
    shown = call(store, "history", MODEL).out
    assert [line.split()[1] for line in shown.splitlines()[1:]] == [
        *("promote", "promote", "rollback", "release", "promote")
    ]


def test_a_hold_lets_nights_judge_and_nothing_enter(store: FileStore, data: str) -> None:
    assert call(store, "hold", MODEL, "--because", "an experiment runs", "--by", "ann").code == 0
    ended = night(store, data, "--set", "train.seed=7", "--set", "gate.min_gain=0%", "--set", "gate.confidence=50%")
    assert ended.json["production"]["version"] == "2"
    assert [record.action for record in records(store, MODEL)] == ["promote", "promote", "hold"]
    planned = ratchet(
        "plan", MODEL, "--store", str(store.root), "--date", "2026-03-20", environment={"RATCHET_DATA": data}
    )
    assert "promotions of search-ranking are held by ann" in planned.out
