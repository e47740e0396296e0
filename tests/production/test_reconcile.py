"""The alias follows the ledger: repairs, races, and the states in which it must not."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.production.accept_loss import accept_loss
from ratchet.production.by_hand import carry_out
from ratchet.production.hold import hold
from ratchet.production.reconcile import follow, reconcile, sentences
from ratchet.production.rollback import rollback
from ratchet.production.standing import standing
from ratchet.store.ledger import Record, append, champion
from ratchet.store.memory import MemoryStore
from ratchet.tracking.memory_registry import MemoryRegistry
from ratchet.tracking.registry import DIGEST, SCORING, Version
from tests.store.test_ledger import change

MODEL = "ranker"


@dataclass(frozen=True)
class Place:
    """A store in memory and its registry."""

    store: MemoryStore
    registry: MemoryRegistry

    def promote(self, name: str, day: int = 10, **more: Any) -> Record:
        """Register a model, and record it as champion; the alias stays where it is."""
        made = digest(name.encode())
        version = self.registry.add(MODEL, {DIGEST: made, **({SCORING: more["scoring"]} if "scoring" in more else {})})
        live = champion(self.store, MODEL)
        number = live.number if live else 0
        return append(self.store, change(version.number, day, model_digest=made, **more), after=number)

    def alias(self) -> str:
        found = self.registry.champion(MODEL)
        assert found is not None
        return found.digest


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    store = MemoryStore(f"reconcile-{request.node.nodeid}")
    return Place(store, MemoryRegistry.of(store.uri))


def test_nothing_in_production_is_no_finding(place: Place) -> None:
    found = reconcile(place.store, None, MODEL)
    assert (found.agrees, found.live, list(sentences(MODEL, found))) == (True, None, [])
    assert place.store.head(paths.head_below(paths.ledger(MODEL))) is None


def test_an_alias_that_is_missing_or_bent_is_set_and_that_is_said(place: Place) -> None:
    place.promote("a")
    assert reconcile(place.store, None, MODEL).moved == ""
    place.promote("b")
    found = reconcile(place.store, None, MODEL)
    assert (found.moved, found.version, place.alias()) == ("1", "2", digest(b"b"))
    assert list(sentences(MODEL, found)) == [
        "the alias champion of ranker named version 1, and was set to version 2, as record 2 of the ledger says"
    ]
    assert reconcile(place.store, None, MODEL).moved is None


def test_only_a_look_moves_nothing(place: Place) -> None:
    place.promote("a")
    reconcile(place.store, None, MODEL)
    place.promote("b")
    assert reconcile(place.store, None, MODEL, look=True).moved is None
    assert place.alias() == digest(b"a")


def test_a_version_is_found_by_its_digest_and_the_code_that_scores_it_and_never_by_its_number(place: Place) -> None:
    """The registry counts anew after a restore, and one training may be scored by two packages."""
    a = digest(b"a")
    for tags in ({DIGEST: digest(b"x")}, {DIGEST: a, SCORING: "old"}, {DIGEST: a, SCORING: "new"}):
        place.registry.add(MODEL, tags)
    append(place.store, change("1", 10, model_digest=a, scoring="new"), after=0)
    assert reconcile(place.store, None, MODEL).version == "3"


def late(place: Place, meanwhile: Callable[[], object]) -> MemoryRegistry:
    """The registry as a writer sees it that is interrupted before it moves the alias."""

    class Late(MemoryRegistry):
        def point(self, model: str, version: Version, record: int) -> None:
            if not seen:
                seen.append(version.number)
                meanwhile()
            super().point(model, version, record)

    seen: list[str] = []
    return Late(place.registry.address, place.registry.models)


def test_a_late_writer_sees_that_production_has_moved_and_moves_the_alias_back(place: Place) -> None:
    place.promote("a")

    def another_promotes() -> None:
        place.promote("b")
        reconcile(place.store, None, MODEL)

    found = follow(place.store, MODEL, late(place, another_promotes))
    assert place.alias() == digest(b"b")
    assert found.live == champion(place.store, MODEL)


def test_production_that_never_rests_is_given_up(place: Place) -> None:
    class Restless(MemoryRegistry):
        def point(self, model: str, version: Version, record: int) -> None:
            """The alias does not move."""

    place.promote("a")
    with pytest.raises(Unavailable, match="kept moving"):
        follow(place.store, MODEL, Restless(place.registry.address, place.registry.models))


def lose_ledger(place: Place) -> None:
    for entry in list(place.store.list(paths.ledger(MODEL))):
        place.store.delete(entry.key)


def lose_tail(place: Place) -> None:
    place.store.delete(paths.record_below(paths.ledger(MODEL), 2))


def older_store(place: Place) -> None:
    """A copy of the store of before the second promotion."""
    lose_ledger(place)
    append(place.store, change("1", 10, model_digest=digest(b"a")), after=0)


def other_store(place: Place) -> None:
    """The older copy, gone on with by other changes."""
    older_store(place)
    append(place.store, change("9", 11, model_digest=digest(b"z")), after=1)


def older_registry(place: Place) -> None:
    place.registry.models.clear()


def foreign_alias(place: Place) -> None:
    place.registry.models[MODEL].alias = place.registry.add(MODEL, {}).number


@pytest.mark.parametrize(
    ("harm", "name", "said"),
    [
        (lose_ledger, "ledger-lost", "the store has no ledger of ranker"),
        (lose_tail, "ledger-damaged", "00000002.json is missing: the ledger ends with record 2"),
        (older_store, "ledger-behind", "the ledger ends with record 1"),
        (other_store, "ledger-behind", "in the ledger that is another model"),
        (older_registry, "registry-behind", "has no version with the model"),
        (foreign_alias, "foreign-alias", "which Ratchet did not register"),
    ],
)
def test_what_allows_no_decision_has_a_name_moves_nothing_and_is_refused(
    place: Place, harm: Callable[[Place], None], name: str, said: str
) -> None:
    for model in "ab":
        place.promote(model)
        reconcile(place.store, None, MODEL)
    harm(place)
    before = place.registry.champion(MODEL)
    found = reconcile(place.store, None, MODEL)
    assert found.finding is not None
    assert (found.finding.name, found.agrees) == (name, False)
    assert said in found.finding.explanation
    assert place.registry.champion(MODEL) == before
    assert list(sentences(MODEL, found)) == [str(found.finding)]
    with pytest.raises(CorruptArtifact if name.startswith("ledger") else ConfigurationError, match=name):
        found.refuse()


def test_a_registry_of_before_that_serves_what_was_rolled_back_since_is_named_as_that(place: Place) -> None:
    for model in "ab":
        place.promote(model)
    reconcile(place.store, None, MODEL)
    older = deepcopy(place.registry.models)
    rollback(place.store, MODEL, by="ann", because="clicks fell")
    place.promote("c")
    reconcile(place.store, None, MODEL)
    place.registry.models.clear()
    place.registry.models.update(older)
    finding = reconcile(place.store, None, MODEL).finding
    assert finding is not None
    assert finding.name == "registry-behind"
    assert (
        "the alias names a model that was rolled back: version 2, which has this model or its training, was rolled back by ann"
        in finding.explanation
    )


def test_a_foreign_alias_over_an_empty_ledger_is_no_lost_ledger(place: Place) -> None:
    foreign = place.registry.add(MODEL, {})
    place.registry.models[MODEL].alias = foreign.number
    found = reconcile(place.store, None, MODEL)
    assert found.finding is not None
    assert found.finding.name == "foreign-alias"


def test_after_a_person_s_change_the_alias_follows_in_any_case(place: Place) -> None:
    for model in "ab":
        place.promote(model)
    foreign_alias(place)
    rollback(place.store, MODEL, by="ann", because="clicks fell")
    assert reconcile(place.store, None, MODEL, force=True).agrees
    assert place.alias() == digest(b"a")


def test_a_registry_that_does_not_answer_is_unchecked_and_never_a_pass(place: Place) -> None:
    live = place.promote("a")
    found = reconcile(place.store, "http://127.0.0.1:9", MODEL)
    assert (found.agrees, found.live, found.finding) == (False, live, None)
    assert "does not answer" in found.unchecked
    (line,) = sentences(MODEL, found)
    assert "was not checked" in line
    place.store.delete(paths.record_below(paths.ledger(MODEL), 1))
    assert reconcile(place.store, "http://127.0.0.1:9", MODEL).live is None


def test_a_head_that_lags_is_repaired_and_one_of_before_is_made(place: Place) -> None:
    place.promote("a")
    key = paths.head_below(paths.ledger(MODEL))
    first = place.store.read(key)
    place.promote("b")
    entry = place.store.head(key)
    assert entry is not None
    newest = place.store.read(key)
    place.store.replace(key, first, expected=entry.etag)
    found = reconcile(place.store, None, MODEL)
    assert found.head
    assert "lagged" in next(iter(sentences(MODEL, found)))
    assert place.store.read(key) == newest


def test_the_date_of_a_record_is_kept_by_the_fixture() -> None:
    assert change("1", 10).data_date == date(2026, 11, 10)


def two_champions_and_a_rollback(place: Place) -> MemoryStore:
    """The ledger of before the rollback from b to a, which the alias and its tag know of."""
    for name, day in (("a", 10), ("b", 11)):
        place.promote(name, day)
        reconcile(place.store, None, MODEL)
    before = MemoryStore(f"{place.store.uri}-before")
    for entry in place.store.list(""):
        before.create(entry.key, place.store.read(entry.key))
    rollback(place.store, MODEL, by="ann", because="clicks fell")
    reconcile(place.store, None, MODEL, force=True)
    assert place.alias() == digest(b"a")
    MemoryRegistry.of(before.uri).models.update(place.registry.models)
    return before


@pytest.mark.parametrize("alias", ["2", None])
def test_a_ledger_of_before_is_noticed_wherever_the_alias_was_bent_to(place: Place, alias: str | None) -> None:
    before = two_champions_and_a_rollback(place)
    place.registry.models[MODEL].alias = alias
    found = reconcile(before, None, MODEL)
    assert found.finding is not None
    assert found.finding.name == "ledger-behind"
    assert "version 1" in found.finding.explanation
    assert "by record 3" in found.finding.explanation
    assert place.registry.models[MODEL].alias == alias


def test_a_ledger_that_is_gone_is_noticed_without_an_alias(place: Place) -> None:
    place.promote("a")
    reconcile(place.store, None, MODEL)
    empty = MemoryStore(f"{place.store.uri}-empty")
    MemoryRegistry.of(empty.uri).models.update(place.registry.models)
    place.registry.models[MODEL].alias = None
    found = reconcile(empty, None, MODEL)
    assert found.finding is not None
    assert found.finding.name == "ledger-lost"


def test_a_loss_that_is_accepted_leaves_in_service_what_the_lost_rollback_put_there(place: Place) -> None:
    before = two_champions_and_a_rollback(place)
    accept_loss(before, None, MODEL, by="ann", because="no backup")
    assert place.alias() == digest(b"a")
    now = standing(before, MODEL)
    assert now.live is not None
    assert (now.live.model_digest, now.live.action) == (digest(b"a"), "rollback")
    assert now.ban_of(digest(b"b")) is not None
    assert now.hold is not None
    assert reconcile(before, None, MODEL).agrees


def test_a_hold_that_was_lost_with_the_head_is_noticed(place: Place) -> None:
    place.promote("a")
    reconcile(place.store, None, MODEL)
    before = MemoryStore(f"{place.store.uri}-before")
    for entry in place.store.list(""):
        before.create(entry.key, place.store.read(entry.key))
    carry_out(place.store, None, MODEL, lambda: hold(place.store, MODEL, by="ann", because="an experiment"))
    MemoryRegistry.of(before.uri).models.update(place.registry.models)
    found = reconcile(before, None, MODEL)
    assert found.finding is not None
    assert found.finding.name == "ledger-behind"
    assert "the ledger ends with record 1" in found.finding.explanation
    assert "by its record 2" in found.finding.explanation
    accept_loss(before, None, MODEL, by="ann", because="no backup")
    assert reconcile(before, None, MODEL).agrees


def test_a_record_that_a_registry_has_missed_is_marked_by_the_next_run(place: Place) -> None:
    place.promote("a")
    reconcile(place.store, None, MODEL)
    hold(place.store, MODEL, by="ann", because="an experiment")  # while the registry did not answer
    assert reconcile(place.store, None, MODEL, look=True).agrees
    assert [version.record for version in place.registry.recorded(MODEL)] == [1]
    found = reconcile(place.store, None, MODEL)
    assert (found.agrees, found.moved) == (True, None)
    assert [version.record for version in place.registry.recorded(MODEL)] == [2]
