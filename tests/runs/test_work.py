"""What is left to compute of a stage, or its outcome where nothing is."""

import uuid
from typing import Any

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.parent import WarmStart
from ratchet.contracts.request import Outcome
from ratchet.contracts.stages import Stage
from ratchet.production.baseline import as_champion
from ratchet.production.hold import hold
from ratchet.production.release import release
from ratchet.production.rollback import rollback
from ratchet.runs.events import Event
from ratchet.runs.work import Work, settle, why_again
from ratchet.store.ledger import Record, append
from ratchet.store.memory import MemoryStore
from ratchet.store.publishing import Transaction
from ratchet.tracking.memory_registry import MemoryRegistry
from ratchet.tracking.registry import DIGEST
from tests.contracts.test_parent import PARENT
from tests.runs.recorded import keep, publish, training
from tests.runs.test_requests import CONTENT, JUDGED, OUTCOMES, TRAINED, outcome, plan
from tests.store.test_ledger import change

LATENCY = {"kind": "latency", "name": "latency", "candidate": 3, "baseline": 1, "limit": 2, "found": None}
BEFORE: tuple[Stage, ...] = ("ingest", "validate", "features")


@pytest.fixture
def store() -> MemoryStore:
    """A store in which the stages before a training have ended."""
    made = MemoryStore(uuid.uuid4().hex)
    keep(made, plan(), *(OUTCOMES[stage] for stage in BEFORE))
    return made


@pytest.fixture
def events() -> list[Event]:
    return []


def test_a_stage_without_a_result_is_work_for_the_attempt(store: MemoryStore, events: list[Event]) -> None:
    work = settle(store, plan(), "train", "try1", on_event=events.append)
    assert isinstance(work, Work)
    assert (work.request.stage, work.attempt, work.because) == ("train", "try1", "no result is stored yet")
    assert work.request == training(store, plan(), "try1").request
    assert events == []


def test_work_names_its_lease_and_labels_its_jobs(store: MemoryStore) -> None:
    work = training(store, plan(), "try1")
    fingerprint = work.request.fingerprint
    assert work.lease == paths.lease("small", "train", fingerprint)
    assert work.labels().items() < work.labels("try1").items() <= work.job.labels.items()
    assert (work.labels()["ratchet.fingerprint"], work.labels("try1")["ratchet.attempt"]) == (fingerprint, "try1")
    assert (work.job.timeout_s, work.job.grace_s) == (work.timeout_s, work.grace_s)


def test_a_result_that_is_published_is_the_outcome(store: MemoryStore, events: list[Event]) -> None:
    work = training(store, plan())
    published = publish(work)
    found = settle(store, plan(), "train", "try1", on_event=events.append)
    assert not isinstance(found, Work)
    assert (found.state, found.cached, found.because) == ("done", True, "its result is stored")
    assert (found.manifest, found.result) == (published.key, published.result)
    assert work.result() == published.model_copy(update={"reused": True})


def test_a_damaged_result_is_work_again_and_a_warning_names_what_is_damaged(
    store: MemoryStore, events: list[Event]
) -> None:
    work = training(store, plan())
    weights = publish(work).result.outputs["weights"]
    store.delete(weights.key)
    store.create(weights.key, b"9876543210")
    assert isinstance(settle(store, plan(), "train", "try1", on_event=events.append), Work)
    assert [event.level for event in events] == ["warning"]
    assert events[0].message == f"{work.request.prefix}: weights damaged or gone, so it is built again"


def test_register_is_skipped_unless_the_verdict_is_to_promote(store: MemoryStore, events: list[Event]) -> None:
    rejected = outcome("evaluate", summary={**JUDGED, "verdict": "reject", "explanation": "2 % worse"})
    keep(store, plan(), OUTCOMES["train"], rejected)
    found = settle(store, plan(), "register", "try1", on_event=events.append)
    assert not isinstance(found, Work)
    assert (found.state, found.because, found.result) == ("skipped", "reject: 2 % worse", None)


def test_a_stage_whose_earlier_stage_has_no_result_is_refused(store: MemoryStore, events: list[Event]) -> None:
    with pytest.raises(ConfigurationError, match=r"evaluate of run r: train has no result yet; to do: run train"):
        settle(store, plan(), "evaluate", "try1", on_event=events.append)


REGISTERED = {"model": "small", "version": "1", "mlflow_run_id": "m"}


def judged_against(champion: Record | None) -> Outcome:
    """A verdict of promote, over this champion."""
    baseline = as_champion(champion).model_dump(mode="json") if champion else None
    return outcome("evaluate", summary={**JUDGED, "baseline": baseline})


def ready(store: MemoryStore, champion: Record | None) -> None:
    """The run has a better candidate than this champion."""
    keep(store, plan(), OUTCOMES["train"], judged_against(champion))


def register(store: MemoryStore, events: list[Event]) -> Work | Outcome:
    return settle(store, plan(), "register", "try1", on_event=events.append)


def published(store: MemoryStore, events: list[Event], **registration: object) -> None:
    """Publish what the register that is due says."""
    work = register(store, events)
    assert isinstance(work, Work)
    Transaction(store, work.request.prefix, "try1").commit(
        stage="register", fingerprint=work.request.fingerprint, parts=work.request.parts, content=CONTENT,
        summary={**REGISTERED, "promoted": False, **registration},
    )  # fmt: skip


def put(store: MemoryStore, model: str, *, after: int) -> Record:
    """Somebody puts a model into production, which the registry has."""
    MemoryRegistry.of(store.uri).add("small", {DIGEST: model})
    return append(store, change("7", 10, model="small", model_digest=model), after=after)


OURS, FIRST, OTHER = CONTENT, "a" * 64, "b" * 64


def test_what_was_withheld_because_production_moved_is_decided_again_once_it_is_as_it_was_measured(
    store: MemoryStore, events: list[Event]
) -> None:
    ready(store, put(store, FIRST, after=0))
    published(store, events, withheld="production has moved since the evaluation")  # and the reason has passed
    again = register(store, events)
    assert isinstance(again, Work)
    assert [event.message for event in events] == ["production of small is not what register left; it is decided again"]
    assert [entry.key for entry in store.list(paths.superseded(again.request.prefix))]
    put(store, OTHER, after=1)
    published(store, events, withheld="production has moved since the evaluation")
    found = register(store, events)
    assert isinstance(found, Outcome)
    assert found.cached, "the reason stands, so the answer does"
    rollback(store, "small", by="ann", because="clicks fell")
    assert isinstance(register(store, events), Work)


def test_what_was_withheld_by_a_hold_that_came_in_between_is_decided_again_after_its_release(
    store: MemoryStore, events: list[Event]
) -> None:
    ready(store, put(store, FIRST, after=0))
    published(store, events, withheld="promotions of small are held")  # the hold came after the request was made
    hold(store, "small", by="ann", because="an experiment")
    published(store, events, withheld="promotions of small are held")
    assert isinstance(register(store, events), Outcome)
    release(store, "small", by="ann", because="it is over")
    assert isinstance(register(store, events), Work)


def test_a_promotion_that_was_rolled_back_and_released_is_decided_again_by_its_own_night(
    store: MemoryStore, events: list[Event]
) -> None:
    ready(store, put(store, FIRST, after=0))
    published(store, events, promoted=True)
    put(store, OURS, after=1)
    assert isinstance(register(store, events), Outcome)
    rollback(store, "small", by="ann", because="clicks fell")
    banned = register(store, events)
    assert isinstance(banned, Work)
    assert "was rolled back by ann" in banned.request.parts["obstacle"]
    release(store, "small", version="7", by="ann", because="it was the logging")
    again = register(store, events)
    assert isinstance(again, Work)
    assert "obstacle" not in again.request.parts


def test_a_candidate_that_began_with_a_model_which_was_rolled_back_meanwhile_is_withheld_until_that_is_released(
    store: MemoryStore, events: list[Event]
) -> None:
    put(store, FIRST, after=0)
    begun = put(store, OTHER, after=1)
    start = WarmStart(
        parent=PARENT.model_copy(update={"digest": OTHER}), parameters=9, of_parameters=9, rows=0, of_rows=0
    )
    made = {**TRAINED, "warm_start": start.model_dump(mode="json")}
    keep(store, plan(), outcome("train", summary=made), judged_against(begun))
    work = register(store, events)
    assert isinstance(work, Work)
    assert "obstacle" not in work.request.parts
    rollback(store, "small", by="ann", because="clicks fell")
    work = register(store, events)
    assert isinstance(work, Work)
    assert work.request.parts["obstacle"].startswith("it began with a model that may not return: version 7, ")
    release(store, "small", version="7", by="ann", because="it was the logging")
    work = register(store, events)
    assert isinstance(work, Work)
    assert "obstacle" not in work.request.parts


def test_a_night_that_production_has_left_behind_is_judged_again_without_training(store: MemoryStore) -> None:
    """A run of the same date after another model was promoted: its evaluation is another, its training the same."""
    keep(store, plan(), OUTCOMES["train"])
    put(store, FIRST, after=0)
    fingerprints = []
    for _ in range(2):
        works = [settle(store, plan(), stage, "try1", on_event=print) for stage in ("train", "evaluate")]
        assert all(isinstance(work, Work) for work in works)
        fingerprints.append([work.request.fingerprint for work in works if isinstance(work, Work)])
        if len(fingerprints) == 1:
            put(store, OTHER, after=1)
    (train, evaluate), (train_again, evaluate_again) = fingerprints
    assert (train, evaluate != evaluate_again) == (train_again, True)


@pytest.mark.parametrize(
    ("judged", "said"),
    [
        ({}, ""),
        ({"verdict": "reject", "reason": "too-slow"}, "it took too long"),
        ({"verdict": "inconclusive", "reason": "baseline-unreadable"}, "the champion could not be measured"),
        ({"verdict": "inconclusive", "reason": "champion-unmeasurable"}, "the champion could not be measured"),
        ({"guards": [{**LATENCY, "outcome": "failed"}]}, "it took too long"),
        ({"guards": [{**LATENCY, "outcome": "passed"}]}, ""),
    ],
)
def test_a_verdict_that_speaks_of_a_moment_is_made_again_by_the_next_run(
    store: MemoryStore, events: list[Event], judged: dict[str, Any], said: str
) -> None:
    keep(store, plan(), OUTCOMES["train"])
    work = settle(store, plan(), "evaluate", "try1", on_event=events.append)
    assert isinstance(work, Work)
    Transaction(store, work.request.prefix, "try1").commit(
        stage="evaluate", fingerprint=work.request.fingerprint, parts=work.request.parts, content=CONTENT,
        summary={**JUDGED, **judged},
    )  # fmt: skip
    again = settle(store, plan(), "evaluate", "try2", on_event=events.append)
    assert isinstance(again, Work) == bool(said)
    assert [event.message for event in events] == ([f"the last time {said}; it is evaluated again"] if said else [])


@pytest.mark.parametrize(("refused", "again"), [("too-slow: a row takes 300 ms", True), ("refit-diverged: 9", False)])
def test_a_refit_that_took_too_long_to_answer_is_made_again_and_another_one_is_not(
    store: MemoryStore, refused: str, *, again: bool
) -> None:
    work = training(store, plan())
    compared = {"of": CONTENT, "loss": 9, "measured_loss": 1, "metric": "auc", "score": 0.5, "measured_score": 0.7}
    Transaction(store, work.request.prefix, "try1").commit(
        stage="refit", fingerprint=work.request.fingerprint, parts=work.request.parts, content=CONTENT,
        summary={**TRAINED, "refit": {**compared, "refused": refused}},
    )  # fmt: skip
    found = work.result()
    assert found is not None
    assert bool(why_again(store, work.request.model_copy(update={"stage": "refit"}), found, {})) == again


def test_a_candidate_that_is_offered_in_place_of_a_stuck_champion_gets_a_version(
    store: MemoryStore, events: list[Event]
) -> None:
    stuck = {"verdict": "inconclusive", "reason": "champion-unmeasurable", "offered": True}
    keep(store, plan(), OUTCOMES["train"], outcome("evaluate", summary={**JUDGED, **stuck}))
    assert isinstance(register(store, events), Work)
