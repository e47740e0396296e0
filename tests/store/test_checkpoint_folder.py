"""Which folders of checkpoints a training reads, and which are deleted when it is published."""

from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir

import pytest

from ratchet.contracts.fingerprint import digest, fingerprint
from ratchet.contracts.request import StageRequest
from ratchet.contracts.result import StageResult
from ratchet.store.base import Store
from ratchet.store.checkpoint_folder import StoreCheckpointFolder, delete_checkpoints
from ratchet.store.memory import MemoryStore
from tests.shop import Shop


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return MemoryStore(str(tmp_path / "store"))


@pytest.fixture
def shop(store: Store, tmp_path: Path) -> Shop:
    return Shop.make(store, tmp_path / "scratch")


def request(shop: Shop, *, run: str = "r1", **parts: str) -> StageRequest:
    named = {name.replace("__", "."): value for name, value in parts.items()}
    given = {"config.train.seed": "0", "config.resources.train.cpus": "1", **named}
    made = shop.request("train", attempt="one")
    return made.model_copy(update={"run_id": run, "parts": given, "fingerprint": fingerprint(given)})


def folder_of(store: Store, asked: StageRequest) -> StoreCheckpointFolder:
    return StoreCheckpointFolder(store, asked, Path(gettempdir()))


def save(store: Store, asked: StageRequest, step: int = 1) -> StoreCheckpointFolder:
    folder = folder_of(store, asked)
    folder.write(f"step-{step:010d}.part-1-of-1.ab.safetensors", lambda output: None)
    folder.put(f"step-{step:010d}.json", b"{}")
    return folder


def result(asked: StageRequest) -> StageResult:
    return StageResult(
        stage="train",
        fingerprint=asked.fingerprint,
        parts=asked.parts,
        content=digest(b""),
        outputs={},
        summary={},
        attempt="one",
        finished=datetime(2026, 11, 21, 2, tzinfo=UTC),
    )


def folders(store: Store) -> int:
    return len({entry.key.rpartition("/")[0] for entry in store.list("checkpoints")})


def test_a_training_reads_the_folders_of_those_that_compute_the_same(store: Store, shop: Shop) -> None:
    mine = save(store, request(shop))
    save(store, request(shop, config__resources__train__cpus="2", accumulation="4"), 7)
    save(store, request(shop, config__train__seed="1"), 9)
    (other,) = mine.others()
    assert [name for name in other.names() if name.endswith(".json")] == ["origin.json", "step-0000000007.json"]


def test_who_lists_its_checkpoints_writes_their_origin_again_and_reads_none_without_it(
    store: Store, shop: Shop
) -> None:
    names = {*save(store, request(shop)).names()}
    (seen,) = [entry for entry in store.list("checkpoints") if entry.key.endswith("/origin.json")]
    assert {*folder_of(store, request(shop)).names()} == names
    now = store.head(seen.key)
    assert now is not None
    assert now.modified_ns > seen.modified_ns  # a collection deletes it only as it saw it
    store.delete(seen.key)
    assert list(folder_of(store, request(shop)).names()) == []


def test_a_published_training_leaves_none_of_its_run_and_keeps_those_of_another_run(store: Store, shop: Shop) -> None:
    mine = request(shop, accumulation="2")
    save(store, mine)
    save(store, request(shop))
    waiting = save(store, request(shop, run="r2", accumulation="8"))
    save(store, request(shop, config__train__seed="1"))
    delete_checkpoints(store, shop.spec.name, "r1", result(mine))
    assert folders(store) == 2
    assert "step-0000000001.json" in waiting.names()


def test_why_a_training_does_not_resume_names_what_its_mathematics_differ_in(store: Store, shop: Shop) -> None:
    save(store, request(shop))
    cpus = {"config__resources__train__cpus": "4", "accumulation": "2"}
    fresh = folder_of(store, request(shop, config__train__seed="5", **cpus))
    assert fresh.why_fresh() == "run r1 computed something else: config.train.seed: 0 -> 5"
    assert folder_of(store, request(shop, **cpus)).why_fresh() == ""
    empty = MemoryStore(store.uri + "-empty")
    assert folder_of(empty, request(shop)).why_fresh() == ""
