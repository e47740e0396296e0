"""What people do to production: rollback, hold, release, and the record of who and why."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.production.accept_loss import accept_loss
from ratchet.production.by_hand import carry_out
from ratchet.production.diagnosis import diagnose
from ratchet.production.history import history
from ratchet.production.hold import hold
from ratchet.production.recipe import recipe
from ratchet.production.reconcile import reconcile
from ratchet.production.release import release
from ratchet.production.rollback import rollback
from ratchet.production.standing import standing
from ratchet.store.ledger import append, champion, records
from ratchet.store.memory import MemoryStore
from ratchet.tracking.memory_registry import MemoryRegistry
from tests.production.test_reconcile import MODEL, Place
from tests.store.test_ledger import change


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    store = MemoryStore(f"by-hand-{request.node.nodeid}")
    made = Place(store, MemoryRegistry.of(store.uri))
    for name in "abc":
        made.promote(name, recipe=f"recipe of {name}")
    return made


def back(place: Place, version: str | None = None) -> str:
    return rollback(place.store, MODEL, version=version, by="ann", because="clicks fell").version


def test_a_rollback_goes_to_the_last_different_champion_and_the_next_one_further(place: Place) -> None:
    assert [back(place), back(place)] == ["2", "1"]
    with pytest.raises(ConfigurationError, match="no other champion before version 1 that is not banned"):
        back(place)
    newest = records(place.store, MODEL)[-1]
    assert (newest.action, newest.by_hand, newest.started_by, newest.reason) == ("rollback", True, "ann", "clicks fell")
    assert newest.model_digest == digest(b"a")


def test_a_rollback_bans_all_that_held_office_since_its_target_with_their_recipes(place: Place) -> None:
    back(place, "1")
    now = standing(place.store, MODEL)
    assert [(one.ban.version, one.ban.recipe) for one in now.banned] == [("2", "recipe of b"), ("3", "recipe of c")]
    assert now.ban_of(digest(b"c")) is not None
    assert now.ban_of(digest(b"rebuilt"), "recipe of c") is not None
    assert now.ban_of(digest(b"a"), "recipe of a") is None
    assert now.ban_of(digest(b"d"), "") is None


def test_a_banned_version_is_no_target_until_it_is_released(place: Place) -> None:
    back(place, "1")
    with pytest.raises(ConfigurationError, match=r"version 3, which has this model .* was rolled back by ann"):
        back(place, "3")
    release(place.store, MODEL, version="3", by="bob", because="it was the logging")
    assert back(place, "3") == "3"
    assert [one.ban.version for one in standing(place.store, MODEL).banned] == ["2", "1"]


def test_a_release_ends_the_ban_of_one_model_where_two_had_the_number(place: Place) -> None:
    append(place.store, change("3", 11, model_digest=digest(b"another")), after=3)
    back(place, "1")
    release(place.store, MODEL, version="3", by="bob", because="it was the logging")
    now = standing(place.store, MODEL)
    assert now.ban_of(digest(b"another")) is None
    assert now.ban_of(digest(b"c")) is not None


def test_a_rollback_passes_over_another_build_of_a_training_that_is_banned(place: Place) -> None:
    place.promote("b again", recipe="recipe of b")
    assert [back(place), back(place)] == ["3", "1"]


@pytest.mark.parametrize(
    ("version", "said"), [("9", "was never in production; allowed: 1, 2, 3"), ("3", "is in production already")]
)
def test_a_rollback_to_what_it_cannot_reach_is_refused_by_name(place: Place, version: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        back(place, version)


def test_a_model_that_nobody_promoted_cannot_be_rolled_back_or_held(place: Place) -> None:
    for act in (rollback, hold, release):
        with pytest.raises(ConfigurationError, match="no model of nobody is in production"):
            act(place.store, "nobody", by="ann", because="why")


def test_a_hold_stops_every_promotion_until_it_is_released_and_a_ban_outlives_it(place: Place) -> None:
    back(place)
    hold(place.store, MODEL, by="ann", because="an experiment")
    assert "held by ann" in standing(place.store, MODEL).obstacle(digest(b"new"))
    with pytest.raises(ConfigurationError, match="held by ann"):
        hold(place.store, MODEL, by="bob", because="why")
    release(place.store, MODEL, by="bob", because="it is over")
    now = standing(place.store, MODEL)
    assert (now.hold, now.obstacle(digest(b"new"))) == (None, "")
    assert "was rolled back" in now.obstacle(digest(b"c"))
    assert now.obstacle(digest(b"new"), parent=digest(b"a")) == ""
    begun = now.obstacle(digest(b"new"), parent=digest(b"c"))
    assert begun.startswith("it began with a model that may not return: version 3, which has this model")
    assert now.live == champion(place.store, MODEL)


def test_what_is_neither_held_nor_banned_cannot_be_released(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="promotions of ranker are not held; to do: nothing has to be done"):
        release(place.store, MODEL, by="ann", because="why")
    back(place)
    with pytest.raises(
        ConfigurationError, match="version 1 of ranker is not banned; to do: versions that are banned: ranker@3"
    ):
        release(place.store, MODEL, version="1", by="ann", because="why")


@pytest.mark.parametrize(("by", "because", "flag"), [(" ", "why", "--by"), ("ann", "", "--because")])
def test_nobody_changes_production_without_a_name_and_a_reason(place: Place, by: str, because: str, flag: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{flag} is empty"):
        rollback(place.store, MODEL, by=by, because=because)


@pytest.mark.parametrize("because", ["one\ntwo", "\x1b[2J", "w" * 1001])
def test_a_reason_is_one_line_of_text(place: Place, because: str) -> None:
    with pytest.raises(ConfigurationError, match="--because is no line of text; allowed: 1000 characters"):
        hold(place.store, MODEL, by="ann", because=because)
    assert len(records(place.store, MODEL)) == 3


def test_a_ledger_that_is_begun_in_the_place_of_a_lost_one_holds_promotions(place: Place) -> None:
    reconcile(place.store, None, MODEL)
    lost = MemoryStore(f"{place.store.uri}-lost")
    MemoryRegistry.of(lost.uri).models.update(place.registry.models)
    shown = {line.name: (line.well, line.text) for line in diagnose(lost, None, MODEL)}
    assert shown["hold"] == shown["bans"] == (None, "nobody knows: the ledger is lost")
    begun = change("3", 10, model_digest=digest(b"c"), by_hand=True, started_by="ann", reason="no backup", holds=True)
    done = carry_out(lost, None, MODEL, lambda: append(lost, begun, after=0))
    assert done.reconciled.agrees
    now = standing(lost, MODEL)
    assert now.hold is not None
    assert now.hold.number == 1
    assert "promotions of ranker are held by ann" in now.obstacle(digest(b"d"))
    release(lost, MODEL, by="ann", because="looked at it")
    assert standing(lost, MODEL).hold is None


def test_doctor_of_a_model_that_nobody_knows_is_wrong(place: Place) -> None:
    (line,) = diagnose(place.store, None, "rankre")
    assert (line.name, line.well) == ("ledger", False)
    assert "no model rankre was ever in production here; check the name" in line.text


def test_a_change_by_hand_moves_the_alias_at_once_and_is_refused_on_a_ledger_that_lost_records(place: Place) -> None:
    done = carry_out(place.store, None, MODEL, lambda: rollback(place.store, MODEL, by="ann", because="why"))
    assert done.before is not None
    assert (done.before.version, done.record.version, place.alias()) == ("3", "2", digest(b"b"))
    place.store.delete(paths.record_below(paths.ledger(MODEL), 4))
    with pytest.raises(CorruptArtifact, match="ledger-damaged"):
        carry_out(place.store, None, MODEL, lambda: rollback(place.store, MODEL, by="ann", because="why"))


def test_without_its_registry_the_record_of_a_change_stays(place: Place) -> None:
    away = "http://127.0.0.1:9"
    done = carry_out(place.store, away, MODEL, lambda: rollback(place.store, MODEL, by="ann", because="why"))
    assert "does not answer" in done.reconciled.unchecked
    assert champion(place.store, MODEL) == done.record


def test_history_shows_who_was_in_office_for_which_dates(place: Place) -> None:
    place.store.create(paths.night("p", date(2026, 11, 15), "r"), b"")
    rolled = change("2", 10, action="rollback", model_digest=digest(b"b"), recorded=datetime(2026, 11, 16, tzinfo=UTC))
    append(place.store, rolled, after=3)
    hold(place.store, MODEL, by="ann", because="why")
    shown = [(reign.record.version, reign.first, reign.last) for reign in history(place.store, MODEL)]
    assert shown == [
        ("1", None, None),
        ("2", None, None),
        ("3", date(2026, 11, 11), date(2026, 11, 15)),
        ("2", date(2026, 11, 16), None),
        ("2", None, None),
    ]


def test_a_lost_tail_is_accepted_by_a_person_and_holds_production(place: Place) -> None:
    lost = paths.record_below(paths.ledger(MODEL), 2)
    with pytest.raises(ConfigurationError, match="has lost nothing"):
        accept_loss(place.store, None, MODEL, by="ann", because="why")
    place.store.delete(lost)
    before = list(place.store.list(paths.ledger(MODEL)))
    with pytest.raises(ConfigurationError, match="--by is empty"):
        accept_loss(place.store, None, MODEL, by="", because="why")
    assert list(place.store.list(paths.ledger(MODEL))) == before
    record = accept_loss(place.store, None, MODEL, by="ann", because="no backup has it")
    assert record is not None
    assert (record.number, record.action, record.version) == (2, "hold", "1")
    assert place.alias() == digest(b"a")
    (kept,) = (entry.key for entry in place.store.list(paths.lost_below(paths.ledger(MODEL))))
    assert kept.endswith("00000003.json")
    assert all(line.well is not False for line in diagnose(place.store, None, MODEL))


def test_a_ledger_without_one_whole_record_is_empty_afterwards(place: Place) -> None:
    place.store.delete(paths.record_below(paths.ledger(MODEL), 1))
    assert accept_loss(place.store, None, MODEL, by="ann", because="no backup has it") is None
    assert records(place.store, MODEL) == ()


def test_doctor_names_a_damaged_ledger_and_what_nobody_could_check(place: Place) -> None:
    names = {line.name: line.well for line in diagnose(place.store, None, MODEL)}
    assert names == {"ledger": True, "alias": True, "weights": None, "hold": True, "bans": True}
    away = {line.name: line.well for line in diagnose(place.store, "http://127.0.0.1:9", MODEL)}
    assert away == {"ledger": True, "alias": None, "hold": True, "bans": True}
    place.store.delete(paths.record_below(paths.ledger(MODEL), 3))
    (line,) = diagnose(place.store, None, MODEL)
    assert (line.name, line.well) == ("ledger", False)
    assert "accept-loss" in line.text


def test_a_rebuild_and_a_smaller_micro_batch_have_the_recipe_of_the_first_training() -> None:
    parts = {"data_date": "2026-11-20", "config.train.epochs": "3"}
    assert recipe({**parts, "rebuild": "run-2", "accumulation": "4"}) == recipe(parts)
    assert recipe({**parts, "config.train.epochs": "4"}) != recipe(parts)


def test_a_training_on_more_processors_has_the_recipe_of_the_first_training() -> None:
    parts = {"input.features": "f", "config.resources.train.cpus": "2", "config.resources.train.gpus": "0"}
    other = {**parts, "config.resources.train.cpus": "3", "config.resources.train.gpus": "1"}
    assert recipe(other) == recipe(parts)


class _Eventful(MemoryStore):
    """Something happens just before the next record is written; the manifests of trainings may not answer."""

    event: Callable[[], object] | None = None
    down = False

    def create(self, key: str, data: bytes) -> bool:
        if self.event is not None and key.startswith(paths.ledger(MODEL)):
            event, self.event = self.event, None
            event()
        return super().create(key, data)

    def read(self, key: str) -> bytes:
        if self.down and key.startswith("published/"):
            raise Unavailable("the store does not answer")
        return super().read(key)


def eventful(name: str, **more: Any) -> tuple[Place, _Eventful]:
    store = _Eventful(name)
    place = Place(store, MemoryRegistry.of(store.uri))
    for model in "abc":
        place.promote(model, **more)
    return place, store


def test_a_rollback_that_a_promotion_overtakes_does_not_bring_back_the_model_that_was_to_go() -> None:
    place, store = eventful("overtaken")
    store.event = lambda: place.promote("d")
    with pytest.raises(ConfigurationError, match="has moved meanwhile, from version 3 to 4"):
        back(place)
    assert standing(store, MODEL).banned == ()


def test_two_people_who_roll_the_same_model_back_go_one_step_and_not_two() -> None:
    place, store = eventful("two-people")
    store.event = lambda: back(place)
    with pytest.raises(ConfigurationError, match="has moved meanwhile, from version 3 to 2"):
        back(place)
    assert [one.ban.version for one in standing(store, MODEL).banned] == ["3"]


def test_a_store_that_does_not_answer_makes_no_ban_without_a_recipe() -> None:
    place, store = eventful("no-answer", recipe="")
    store.down = True
    with pytest.raises(Unavailable):
        back(place)
    assert len(records(store, MODEL)) == 3
