"""Publish, read, crash, damage, repair and collect in any order, against a dictionary."""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from ratchet.contracts import paths
from ratchet.contracts.errors import PublishConflict
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.result import PublishedResult
from ratchet.store.artifacts import read_bytes
from ratchet.store.collecting import collect
from ratchet.store.opening import open_store
from ratchet.store.publishing import Transaction, discard_damaged, find_result, verify

NAMES = iter(itertools.count())
PLACES = st.sampled_from(["a" * 64, "b" * 64])
CONTENTS = st.sampled_from([b"x", b"yy"])


class Publishing(RuleBasedStateMachine):
    """Model: by fingerprint, the bytes that are published, and whether they were damaged since."""

    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.store = open_store(f"mem://states-{next(NAMES)}")
        self.model: dict[str, bytes] = {}
        self.damaged: set[str] = set()
        self.at_work = 0

    @rule(target=running, place=PLACES, data=CONTENTS)
    def start(self, place: str, data: bytes) -> tuple[str, bytes, Transaction]:
        transaction = Transaction(self.store, _prefix(place), "attempt")
        transaction.add_bytes("output", data)
        self.at_work += 1
        return place, data, transaction

    @rule(attempt=consumes(running))
    def publish(self, attempt: tuple[str, bytes, Transaction]) -> None:
        place, data, transaction = attempt
        self.at_work -= 1
        current = self.model.get(place)
        if current not in {None, data}:
            with pytest.raises(PublishConflict):
                self._commit(place, data, transaction)
            return
        assert self._commit(place, data, transaction).reused == (current is not None)
        self.model[place] = data

    @rule(attempt=consumes(running))
    def crash(self, attempt: tuple[str, bytes, Transaction]) -> None:
        self.at_work -= 1

    @rule(place=PLACES)
    def damage(self, place: str) -> None:
        found = find_result(self.store, _prefix(place))
        if found:
            key = found.result.outputs["output"].key
            self.store.delete(key)
            self.store.create(key, b"damaged")
            self.damaged.add(place)

    @rule(place=PLACES)
    def mend(self, place: str) -> None:
        assert discard_damaged(self.store, _prefix(place)) == (["output"] if place in self.damaged else [])
        if place in self.damaged:
            self.damaged.discard(place)
            del self.model[place]

    @rule(place=PLACES)
    def collect_nothing_young(self, place: str) -> None:
        before = list(self.store.list())
        assert collect(self.store, _prefix(place), older_than_s=3600) == []
        assert list(self.store.list()) == before

    @rule(place=PLACES)
    def collect_when_nobody_is_at_work(self, place: str) -> None:
        if self.at_work:
            return
        collect(self.store, _prefix(place), older_than_s=0)
        found = find_result(self.store, _prefix(place))
        used = {found.key, found.result.outputs["output"].key} if found else set()
        assert {entry.key for entry in self.store.list(_prefix(place))} == used

    @invariant()
    def what_is_published_is_what_the_model_says(self) -> None:
        for place in ("a" * 64, "b" * 64):
            found = find_result(self.store, _prefix(place))
            assert (found is None) == (place not in self.model)
            if found and place in self.damaged:
                assert verify(self.store, found) == ["output"]
            elif found:
                assert read_bytes(self.store, found.result.outputs["output"]) == self.model[place]

    def _commit(self, place: str, data: bytes, transaction: Transaction) -> PublishedResult:
        return transaction.commit(stage="train", fingerprint=place, parts={}, content=digest(data))


def _prefix(place: str) -> str:
    return paths.published("example", "train", place)


TestPublishing = Publishing.TestCase
TestPublishing.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
