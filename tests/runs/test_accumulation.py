"""What ran out of memory is remembered, by what its memory depends on, and no further than it helps."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.accumulation import Measurement
from ratchet.contracts.fingerprint import digest, fingerprint
from ratchet.contracts.request import Outcome, RunPlan, StageRequest
from ratchet.contracts.result import Artifact
from ratchet.contracts.stages import REGULAR
from ratchet.contracts.summaries import FeatureDay, FeatureSet, Split, TrainedModel
from ratchet.runs.accumulation import double_micro_batches, remember_chosen
from ratchet.runs.requests import compose
from ratchet.store.memory import MemoryStore
from tests.runs.test_requests import DAY, OUTCOMES, TRAINED, outcome, plan

RANKING = {"train.objective": "ranking", "columns.x.role": "group", "columns.x.type": "int64", "columns.x.min": 0}


def fresh() -> MemoryStore:
    """A store with nothing in it."""
    return MemoryStore(uuid.uuid4().hex)


def composed(store: MemoryStore, made: RunPlan) -> StageRequest:
    return compose(store, made, "train", OUTCOMES, "a")


def after_features(store: MemoryStore, made: RunPlan, *, rows: int, groups: int | None = None) -> None:
    """The record of a run whose features stage has ended with so many rows to train on."""
    arrays = {} if groups is None else {"group": Artifact(key="g", sha256=digest(b""), bytes=8, rows=groups + 1)}
    features = FeatureSet(
        numeric=(), categorical=(), days=(FeatureDay(day=DAY, rows=rows, arrays=arrays),),
        split=Split(train=(DAY,), valid=(), holdout=()),
    )  # fmt: skip
    ended = outcome("features", summary=features.model_dump(mode="json"))
    key = paths.outcome(made.spec.name, made.run_id, "features")
    assert store.create(key, ended.model_dump_json(by_alias=True).encode())


def test_as_long_as_nothing_ran_out_of_memory_no_fingerprint_knows_of_it() -> None:
    store = fresh()
    request = composed(store, plan())
    assert request.accumulation == 1
    assert "accumulation" not in request.parts
    assert list(store.list("accumulation")) == []


def test_the_next_try_and_the_next_night_take_twice_as_many_and_share_no_fingerprint_with_what_failed() -> None:
    store, made = fresh(), plan()
    first = composed(store, made)
    assert double_micro_batches(store, made, used=1) == 2
    second = composed(store, made)
    assert (second.accumulation, second.parts["accumulation"]) == (2, "2")
    assert second.fingerprint == fingerprint(second.parts) != first.fingerprint
    assert double_micro_batches(store, made) == 4  # without a word of what was used, what is remembered was
    assert composed(store, plan(run_id="tomorrow")).accumulation == 4
    others = {stage: compose(store, made, stage, OUTCOMES, "a") for stage in REGULAR if stage != "train"}
    assert {request.accumulation for request in others.values()} == {1}


def test_a_training_begins_with_the_micro_batches_of_its_pipeline_and_doubles_those() -> None:
    store, made = fresh(), plan(overrides={"train.accumulation": 3})
    first = composed(store, made)
    assert (first.accumulation, first.parts["accumulation"]) == (3, "3")
    assert double_micro_batches(store, made, used=3) == 6
    assert composed(store, made).accumulation == 6
    assert composed(store, plan()).accumulation == 1
    assert composed(store, plan(overrides={"train.accumulation": 2})).resume_key == first.resume_key
    assert composed(store, plan(overrides={"train.precision": "bf16"})).resume_key != first.resume_key


def test_what_a_training_measured_is_where_the_next_night_begins_and_says_on_which_machine() -> None:
    store, made = fresh(), plan(overrides={"train.accumulation": "fastest"})
    measured = Measurement(by="time", accumulation=4, machine="a laptop", figures={1: 0.2, 2: None, 4: 0.1})
    trained = TrainedModel.model_validate(TRAINED)
    assert (composed(store, made).accumulation, composed(store, made).measured_on) == (1, "")
    remember_chosen(store, made, trained.model_copy(update={"accumulation": 1, "measurement": measured}), used=1)
    assert (composed(store, made).accumulation, composed(store, made).measured_on) == (1, "a laptop")
    remember_chosen(store, made, trained.model_copy(update={"accumulation": 4, "measurement": measured}), used=1)
    assert (composed(store, made).accumulation, composed(store, made).measured_on) == (4, "a laptop")
    assert double_micro_batches(store, made, used=4) == 8  # it ran out of memory: measure from there
    assert (composed(store, made).accumulation, composed(store, made).measured_on) == (8, "")
    assert composed(store, plan()).measured_on == ""


def test_a_training_that_halved_its_steps_by_itself_lets_the_next_night_begin_with_what_fitted() -> None:
    store, made = fresh(), plan()
    trained = TrainedModel.model_validate(TRAINED)
    remember_chosen(store, made, trained, used=1)
    assert composed(store, made).accumulation == 1
    remember_chosen(store, made, trained.model_copy(update={"accumulation": 8}), used=1)
    assert composed(store, plan(run_id="tomorrow")).accumulation == 8


@pytest.mark.parametrize(
    ("overrides", "shared"),
    [
        ({"train.epochs": 9}, True),
        ({"train.learning_rate": 0.1}, True),
        ({"resources.train.cpus": 7}, True),
        ({"resources.train.memory": "9g"}, False),
        ({"resources.train.gpus": 1}, False),
        ({"train.batch_size": 512}, False),
        ({"train.model.hidden": [8]}, False),
        ({"columns.z.role": "numeric", "columns.z.type": "int64"}, False),
        ({"source.window_days": 4}, False),
    ],
)
def test_it_holds_for_what_needs_the_same_memory(overrides: dict[str, Any], shared: bool) -> None:
    store = fresh()
    double_micro_batches(store, plan(), used=1)
    assert composed(store, plan(overrides)).accumulation == (2 if shared else 1)


def test_another_model_of_the_pipeline_s_own_begins_at_one() -> None:
    store = fresh()
    double_micro_batches(store, plan(user_files={"model.py": digest(b"1")}), used=1)
    assert composed(store, plan(user_files={"model.py": digest(b"1")})).accumulation == 2
    assert composed(store, plan(user_files={"model.py": digest(b"2")})).accumulation == 1


def test_runs_that_ran_out_of_memory_together_take_one_step_not_one_each() -> None:
    store = fresh()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: double_micro_batches(store, plan(run_id=f"r{number}"), used=1), range(8)))
    assert found == [2] * 8
    assert composed(store, plan()).accumulation == 2


def test_a_published_result_with_fewer_micro_batches_is_found_and_not_made_again() -> None:
    store, made = fresh(), plan()
    before = composed(store, made)
    store.create(paths.manifest(before.prefix), b"{}")
    double_micro_batches(store, made, used=1)
    double_micro_batches(store, made, used=2)
    assert composed(store, made).fingerprint == before.fingerprint
    assert composed(store, plan({"train.epochs": 9})).accumulation == 4


@pytest.mark.parametrize(
    ("overrides", "rows", "groups", "most"),
    [
        ({}, 100_000, None, 64),
        ({}, 9, None, 8),
        ({"train.batch_size": 2}, 100_000, None, 2),
        ({**RANKING, "train.batch_size": 1000}, 100_000, 2_500, 16),
        (RANKING, 1000, 2, 1),
    ],
)
def test_it_ends_where_a_micro_batch_cannot_be_smaller(
    overrides: dict[str, Any], rows: int, groups: int | None, most: int
) -> None:
    store, made = fresh(), plan(overrides)
    after_features(store, made, rows=rows, groups=groups)
    value = 1
    while (doubled := double_micro_batches(store, made, used=value)) is not None:
        assert doubled == 2 * value
        value = doubled
    assert value == most
    assert composed(store, made).accumulation == most


def test_without_a_word_of_the_rows_it_ends_at_64() -> None:
    store, made = fresh(), plan()
    failed = Outcome(stage="features", state="failed", because="gone")
    store.create(paths.outcome(made.spec.name, made.run_id, "features"), failed.model_dump_json().encode())
    assert [double_micro_batches(store, made) for _ in range(7)] == [2, 4, 8, 16, 32, 64, None]


@pytest.mark.parametrize("damaged", [b"", b"3000", b"\x00\xff"])
def test_a_record_that_cannot_be_read_counts_for_nothing_and_is_replaced(damaged: bytes) -> None:
    store, made = fresh(), plan()
    double_micro_batches(store, made, used=1)
    (entry,) = store.list("accumulation")
    assert store.replace(entry.key, damaged, expected=entry.etag)
    assert composed(store, made).accumulation == 1
    assert double_micro_batches(store, made, used=1) == 2
    assert composed(store, made).accumulation == 2
