"""What is recorded of a run's stages, and what was built last."""

import uuid

import pytest

from ratchet.runs.outcomes import newest_build, outcome_of, outcomes, why_built
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import keep, publish, training
from tests.runs.test_requests import OUTCOMES, plan
from tests.turned_times import turn_round


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def test_a_run_s_outcomes_are_those_of_its_recorded_stages_in_order(store: MemoryStore) -> None:
    keep(store, plan(), OUTCOMES["train"], OUTCOMES["ingest"])
    keep(store, plan(run_id="another"), OUTCOMES["validate"])
    assert outcomes(store, "small", "r") == {"ingest": OUTCOMES["ingest"], "train": OUTCOMES["train"]}
    assert list(outcomes(store, "small", "r")) == ["ingest", "train"]
    assert outcomes(store, "small", "unknown") == {}


def test_the_outcome_of_a_published_result_names_its_manifest_and_content(store: MemoryStore) -> None:
    published = publish(training(store, plan()))
    found = outcome_of(published, cached=True, because="its result is stored")
    assert (found.stage, found.state, found.cached, found.because) == ("train", "done", True, "its result is stored")
    assert (found.manifest, found.content, found.result) == (
        published.key,
        published.result.content,
        published.result,
    )


def test_the_newest_build_is_the_last_one_of_its_stage_whichever_run_made_it(store: MemoryStore) -> None:
    assert newest_build(store, "small", "train") is None
    publish(training(store, plan()))
    later = publish(training(store, plan({"train.epochs": 9}, run_id="later")))
    found = newest_build(store, "small", "train")
    assert found is not None
    assert found.result == later.result
    assert newest_build(store, "small", "evaluate") is None


def test_the_newest_build_is_known_by_when_it_was_finished_in_a_copy_of_the_store(store: MemoryStore) -> None:
    first = publish(training(store, plan()))
    later = publish(training(store, plan({"train.epochs": 9}, run_id="later")))
    turn_round(store)
    assert newest_build(store, "small", "train") == later.model_copy(update={"reused": True})
    store.replace(later.key, b"damaged", expected=getattr(store.head(later.key), "etag", ""))
    assert newest_build(store, "small", "train") == first.model_copy(update={"reused": True})
    store.delete(later.key)
    assert newest_build(store, "small", "train") == first.model_copy(update={"reused": True})


def test_a_first_build_has_nothing_before_it(store: MemoryStore) -> None:
    assert why_built(store, training(store, plan()).request) == "no result is stored yet"


def test_a_build_is_explained_by_what_differs_from_the_newest_one(store: MemoryStore) -> None:
    publish(training(store, plan()))
    changed = training(store, plan({"train.epochs": 9})).request
    assert why_built(store, changed) == "config.train.epochs: 40 -> 9"


def test_of_many_differences_four_are_shown(store: MemoryStore) -> None:
    publish(training(store, plan()))
    settings = {"epochs": 9, "seed": 7, "batch_size": 8, "learning_rate": 0.5, "patience": 1, "weight_decay": 0.5}
    changed = training(store, plan({f"train.{key}": value for key, value in settings.items()})).request
    why = why_built(store, changed)
    assert why.count(" -> ") == 4
    assert why.endswith("; and 2 more")


def test_a_result_that_was_moved_aside_is_said_to_be_gone(store: MemoryStore) -> None:
    work = training(store, plan())
    publish(work)
    newer = training(store, plan(run_id="newer"))
    assert newer.request.parts == work.request.parts
    assert why_built(store, newer.request) == "its result is gone"
