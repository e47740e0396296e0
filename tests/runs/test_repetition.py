"""Attempts at held-out days, counted in the store."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from uuid import uuid4

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import Promotion, RunPlan
from ratchet.contracts.summaries import Split, TrainedModel
from ratchet.runs.repetition import count_attempt, repetition
from ratchet.store.memory import MemoryStore
from tests.runs.test_requests import DAY, TRAINED, plan


def trained(name: str, *held: date) -> TrainedModel:
    split = Split(train=(), valid=(), holdout=held or (DAY,))
    return TrainedModel.model_validate({**TRAINED, "digest": digest(name.encode()), "split": split.model_dump()})


def counted(store: MemoryStore, made: RunPlan, model: TrainedModel) -> tuple[int, int]:
    count_attempt(store, made, model)
    found = repetition(store, made, model)
    return found.number, found.nights


def test_a_rerun_with_another_candidate_is_a_later_attempt_and_the_same_one_keeps_its_number() -> None:
    store = MemoryStore(uuid4().hex)
    names = ["a", "b", "a", "c", "b"]
    assert [counted(store, plan(), trained(name)) for name in names] == [(1, 1), (2, 1), (1, 1), (3, 1), (2, 1)]
    assert len(list(store.list(paths.holdout_attempts("small", DAY)))) == 3


def test_what_is_not_counted_yet_has_the_number_that_it_would_get_and_nothing_is_written() -> None:
    store = MemoryStore(uuid4().hex)
    assert repetition(store, plan(), trained("a")).number == 1
    assert list(store.list()) == []
    count_attempt(store, plan(), trained("a"))
    assert repetition(store, plan(), trained("b")).number == 2


def test_another_metric_on_the_same_model_is_another_attempt() -> None:
    store = MemoryStore(uuid4().hex)
    assert counted(store, plan(), trained("a"))[0] == 1
    assert counted(store, plan({"evaluate.metric": "logloss"}), trained("a"))[0] == 2


def test_other_code_of_the_pipelines_own_metric_is_another_attempt_at_the_same_model() -> None:
    store = MemoryStore(uuid4().hex)
    own = plan({"evaluate.metric": "metric.py:revenue"})
    edits = [own.model_copy(update={"user_files": {"metric.py": digest(text)}}) for text in (b"1", b"2", b"1")]
    assert [counted(store, edit, trained("a"))[0] for edit in edits] == [1, 2, 1]
    ours = [plan().model_copy(update={"user_files": {"features.py": digest(text)}}) for text in (b"1", b"2")]
    assert [counted(store, edit, trained("b"))[0] for edit in ours] == [3, 3]


def test_nights_that_share_their_days_share_the_error_and_none_of_them_is_late() -> None:
    store = MemoryStore(uuid4().hex)
    for night in range(5):
        last = DAY + timedelta(days=night)
        held = tuple(last - timedelta(days=back) for back in (2, 1, 0))
        assert counted(store, plan(data_date=last), trained(f"night-{night}", *held)) == (1, 3)


def test_a_longer_hold_out_or_the_next_date_is_no_way_to_another_first_attempt() -> None:
    store = MemoryStore(uuid4().hex)
    assert counted(store, plan(), trained("a", DAY))[0] == 1
    assert counted(store, plan(), trained("b", DAY - timedelta(days=1), DAY))[0] == 2
    assert counted(store, plan(data_date=DAY + timedelta(days=1)), trained("c", DAY, DAY + timedelta(days=1)))[0] == 3


def test_a_run_that_may_not_promote_is_judged_as_a_first_attempt_and_counted_nevertheless() -> None:
    store = MemoryStore(uuid4().hex)
    never = plan(promotion=Promotion(mode="never"))
    for name in ("a", "b", "c"):
        assert counted(store, never, trained(name))[0] == 1
    assert counted(store, plan(), trained("c"))[0] == 3
    assert counted(store, plan(), trained("d"))[0] == 4


def test_runs_at_the_same_time_get_numbers_of_their_own() -> None:
    store = MemoryStore(uuid4().hex)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: count_attempt(store, plan(), trained(name)), map(str, range(16))))
    assert sorted(repetition(store, plan(), trained(str(name))).number for name in range(16)) == list(range(1, 17))


def test_an_attempt_that_is_damaged_is_reported_and_not_taken_for_none() -> None:
    store = MemoryStore(uuid4().hex)
    count_attempt(store, plan(), trained("a"))
    key = paths.holdout_attempt("small", DAY, 1)
    entry = store.head(key)
    assert entry is not None
    store.replace(key, store.read(key).replace(b"auc", b"auk"), expected=entry.etag)
    with pytest.raises(CorruptArtifact, match="is damaged"):
        repetition(store, plan(), trained("b"))
