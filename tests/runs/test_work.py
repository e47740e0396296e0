"""What is left to compute of a stage, or its outcome where nothing is."""

import uuid

import pytest

from ratchet.contracts import paths
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import Stage
from ratchet.runs.events import Event
from ratchet.runs.work import Work, settle
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import keep, publish, training
from tests.runs.test_requests import JUDGED, OUTCOMES, outcome, plan

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
    assert events[0].message == f"{work.request.prefix}: weights damaged, so it is built again"


def test_register_is_skipped_unless_the_verdict_is_to_promote(store: MemoryStore, events: list[Event]) -> None:
    rejected = outcome("evaluate", summary={**JUDGED, "verdict": "reject", "explanation": "2 % worse"})
    keep(store, plan(), OUTCOMES["train"], rejected)
    found = settle(store, plan(), "register", "try1", on_event=events.append)
    assert not isinstance(found, Work)
    assert (found.state, found.because, found.result) == ("skipped", "reject: 2 % worse", None)


def test_a_stage_whose_earlier_stage_has_no_result_is_refused(store: MemoryStore, events: list[Event]) -> None:
    with pytest.raises(ConfigurationError, match=r"evaluate of run r: train has no result yet; to do: run train"):
        settle(store, plan(), "evaluate", "try1", on_event=events.append)
