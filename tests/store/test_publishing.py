"""Transactions: one result under a fingerprint, whole or not at all."""

from pathlib import Path
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, NoAnswer, PublishConflict, Unavailable
from ratchet.contracts.result import PublishedResult
from ratchet.store.artifacts import fetch, read_bytes
from ratchet.store.base import Store
from ratchet.store.collecting import collect
from ratchet.store.memory import MemoryStore
from ratchet.store.opening import open_store
from ratchet.store.publishing import MANIFEST, Transaction, discard_damaged, find_result, read_manifest, verify

FINGERPRINT = "f" * 64
PREFIX = paths.published("example", "train", FINGERPRINT)


@pytest.fixture
def store(store_uri: str) -> Store:
    return open_store(store_uri)


def commit(transaction: Transaction, content: str = "c" * 64, **more: Any) -> PublishedResult:
    return transaction.commit(
        stage="train",
        fingerprint=FINGERPRINT,
        parts={"config.seed": "0"},
        content=content,
        timings={"fit": 1.5},
        **more,
    )


def publish(store: Store, attempt: str = "one", content: str = "c" * 64) -> PublishedResult:
    transaction = Transaction(store, PREFIX, attempt)
    transaction.add_bytes("weights", b"0123456789", rows=10)
    transaction.add_bytes("curve", b"[]")
    return commit(transaction, content)


def damage(store: Store, key: str, data: bytes) -> None:
    store.delete(key)
    store.create(key, data)


def test_a_committed_result_is_published_unchanged(store: Store, tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b"abc")
    transaction = Transaction(store, PREFIX, "one")
    rows = transaction.add("rows", tmp_path / "rows", rows=3)
    more = transaction.add_bytes("more", b"{}")
    assert find_result(store, PREFIX) is None
    done = commit(transaction, metrics={"auc": 0.75}, summary={"days": [1, None, "x"]})
    found = find_result(store, PREFIX)
    assert found is not None
    assert (done.reused, found.reused) == (False, True)
    assert found.result == done.result == read_manifest(store, paths.manifest(PREFIX)).result
    assert found.result.outputs == {"rows": rows, "more": more} == transaction.outputs
    assert (found.result.metrics, found.result.summary["days"]) == ({"auc": 0.75}, [1, None, "x"])
    assert fetch(store, rows, tmp_path).read_bytes() == b"abc"
    assert verify(store, found) == verify(store, found, quick=True) == []


def test_a_second_attempt_with_the_same_content_yields_and_leaves_nothing(store: Store) -> None:
    first = publish(store, "one")
    before = [entry.key for entry in store.list()]
    second = publish(store, "two")
    assert second.reused
    assert second.result == first.result
    assert [entry.key for entry in store.list()] == before


def test_a_second_attempt_with_other_content_is_refused(store: Store) -> None:
    first = publish(store, "one")
    with pytest.raises(PublishConflict, match=r"attempt one .* cccccccccccc .* two computed dddddddddddd"):
        publish(store, "two", content="d" * 64)
    found = find_result(store, PREFIX)
    assert found is not None
    assert found.result == first.result
    assert verify(store, found) == []


def test_an_attempt_that_starts_twice_does_not_overwrite_its_first_outputs(store: Store) -> None:
    first = publish(store, "same")
    assert publish(store, "same").reused
    assert verify(store, first) == []


def test_committing_twice_is_still_ours(store: Store) -> None:
    transaction = Transaction(store, PREFIX, "one")
    transaction.add_bytes("weights", b"1")
    commit(transaction)
    again = commit(transaction)
    assert not again.reused
    assert verify(store, again) == []


def test_a_transaction_that_is_abandoned_leaves_nothing(store: Store) -> None:
    transaction = Transaction(store, PREFIX, "one")
    transaction.add_bytes("weights", b"1")
    transaction.abandon()
    assert list(store.list()) == []
    assert transaction.outputs == {}


def test_a_transaction_that_is_abandoned_after_its_commit_keeps_what_is_published(store: Store) -> None:
    transaction = Transaction(store, PREFIX, "one")
    transaction.add_bytes("weights", b"1")
    done = commit(transaction)
    late = transaction.add_bytes("late", b"2")
    transaction.abandon()
    assert verify(store, done) == []
    assert store.head(late.key) is None


def test_a_transaction_that_is_abandoned_beside_another_s_result_leaves_nothing_of_its_own(store: Store) -> None:
    publish(store, "one")
    before = list(store.list())
    transaction = Transaction(store, PREFIX, "two")
    transaction.add_bytes("weights", b"1")
    with pytest.raises(PublishConflict):
        commit(transaction, content="d" * 64)
    transaction.abandon()
    assert list(store.list()) == before


def test_a_transaction_that_is_abandoned_below_a_damaged_manifest_keeps_all(store: Store) -> None:
    transaction = Transaction(store, PREFIX, "one")
    weights = transaction.add_bytes("weights", b"1")
    key = commit(transaction).key
    damage(store, key, store.read(key)[:-7])
    transaction.abandon()
    assert read_bytes(store, weights) == b"1"


class Unanswering(MemoryStore):
    """A store that has the manifest, at once or when it arrives, and the connection breaks before it answers."""

    manifest, arrival = b"", "at once"

    def create(self, key: str, data: bytes) -> bool:
        if key != paths.manifest(PREFIX):
            return super().create(key, data)
        self.manifest = data
        if self.arrival == "at once":
            self.arrive()
        raise Unavailable("no answer")

    def arrive(self) -> None:
        super().create(paths.manifest(PREFIX), self.manifest)


@pytest.mark.parametrize("arrival", ["at once", "later"])
def test_a_transaction_whose_manifest_gets_no_answer_keeps_what_it_names(arrival: str) -> None:
    store = Unanswering(f"unanswering-{arrival}")
    store.arrival = arrival
    transaction = Transaction(store, PREFIX, "one")
    weights = transaction.add_bytes("weights", b"1")
    with pytest.raises(Unavailable):
        commit(transaction)
    transaction.abandon()
    store.arrive()
    found = read_manifest(store, paths.manifest(PREFIX))
    assert found.result.outputs == {"weights": weights}
    assert verify(store, found) == []


def test_names_are_checked_and_used_once(store: Store) -> None:
    with pytest.raises(ConfigurationError):
        Transaction(store, PREFIX, "../one")
    transaction = Transaction(store, PREFIX, "one")
    with pytest.raises(ConfigurationError):
        transaction.add_bytes("../../manifest.json", b"")
    transaction.add_bytes("weights", b"1")
    with pytest.raises(ValueError, match="'weights' was already added"):
        transaction.add_bytes("weights", b"2")


def test_a_manifest_that_has_to_be_there_is_named_when_it_is_not(store: Store) -> None:
    with pytest.raises(CorruptArtifact, match=r"manifest.json is gone"):
        read_manifest(store, paths.manifest(PREFIX))


def test_verify_names_what_is_gone_cut_or_changed(store: Store) -> None:
    transaction = Transaction(store, PREFIX, "one")
    for name in ("whole", "gone", "cut", "changed"):
        transaction.add_bytes(name, b"0123456789")
    found = commit(transaction)
    outputs = found.result.outputs
    store.delete(outputs["gone"].key)
    damage(store, outputs["cut"].key, b"01234")
    damage(store, outputs["changed"].key, b"012345678X")
    assert verify(store, found) == ["gone", "cut", "changed"]
    assert verify(store, found, quick=True) == ["gone", "cut"]


def test_a_damaged_result_is_moved_aside_and_computed_again(store: Store) -> None:
    first = publish(store, "one")
    weights = first.result.outputs["weights"].key
    damage(store, weights, b"012345678X")
    assert discard_damaged(store, PREFIX) == ["weights"]
    assert find_result(store, PREFIX) is None
    second = publish(store, "two")
    assert not second.reused
    assert verify(store, second) == []
    assert read_bytes(store, second.result.outputs["weights"]) == b"0123456789"
    assert store.read(weights) == b"012345678X"
    assert len(list(store.list(f"{PREFIX}/damaged"))) == 1


def test_a_damaged_manifest_is_moved_aside(store: Store) -> None:
    key = publish(store).key
    damage(store, key, store.read(key)[:-7])
    with pytest.raises(CorruptArtifact, match=r"manifest.json is damaged.*moves the damaged result aside"):
        find_result(store, PREFIX)
    with pytest.raises(CorruptArtifact):
        publish(store, "two")
    assert discard_damaged(store, PREFIX) == [MANIFEST]
    assert not publish(store, "three").reused


def test_a_whole_result_is_left_alone(store: Store) -> None:
    assert discard_damaged(store, PREFIX) == []
    first = publish(store)
    assert discard_damaged(store, PREFIX) == []
    assert find_result(store, PREFIX) == first.model_copy(update={"reused": True})


def test_collect_deletes_files_that_are_not_in_use(store: Store) -> None:
    crashed = Transaction(store, PREFIX, "crashed")
    crashed.add_bytes("weights", b"half")
    done = publish(store)
    assert collect(store, PREFIX, older_than_s=3600) == []
    gone = collect(store, PREFIX, older_than_s=-2)
    assert gone == [crashed.outputs["weights"].key]
    assert verify(store, done) == []
    assert find_result(store, PREFIX) is not None


def test_nothing_is_collected_below_a_damaged_manifest(store: Store) -> None:
    key = publish(store).key
    damage(store, key, b"{}")
    before = list(store.list())
    with pytest.raises(CorruptArtifact):
        collect(store, PREFIX, older_than_s=-2)
    assert list(store.list()) == before


def test_a_result_can_refer_to_what_is_published_elsewhere(store: Store) -> None:
    day = publish(store).result.outputs["weights"]
    transaction = Transaction(store, paths.published("example", "features", FINGERPRINT), "one")
    assert transaction.refer("day", day) == day
    found = commit(transaction)
    assert found.result.outputs == {"day": day}
    assert verify(store, found) == []
    damage(store, day.key, b"012345678X")
    assert verify(store, found) == ["day"]


class Restless(MemoryStore):
    """A store in which another process moves the manifest aside each time before it is read."""

    visits = 0

    def create(self, key: str, data: bytes) -> bool:
        if key == paths.manifest(PREFIX) and self.visits:
            self.visits -= 1
            return False
        return super().create(key, data)


def test_a_manifest_that_was_moved_aside_meanwhile_makes_room_for_ours() -> None:
    store = Restless("restless-once")
    store.visits = 2
    assert not publish(store).reused


def test_a_manifest_that_comes_and_goes_is_given_up() -> None:
    store = Restless("restless-for-ever")
    store.visits = 100
    with pytest.raises(NoAnswer, match=r"manifest.json: other processes keep publishing"):
        publish(store)


def test_a_manifest_that_another_process_moves_aside_first_is_left_to_it() -> None:
    class Vanishing(MemoryStore):
        reads = 0

        def read(self, key: str) -> bytes:
            self.reads += 1
            if self.reads > 1:
                raise FileNotFoundError(key)
            return super().read(key)[:-7]

    store = Vanishing("vanishing")
    publish(store)
    assert discard_damaged(store, PREFIX) == []
