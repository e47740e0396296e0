"""Runs whose stages have ended, written into a store by hand."""

from ratchet.contracts import paths
from ratchet.contracts.fingerprint import digest
from ratchet.contracts.request import Outcome, RunPlan
from ratchet.contracts.result import PublishedResult
from ratchet.contracts.stages import Stage
from ratchet.runs.requests import compose
from ratchet.runs.work import Work
from ratchet.store.base import Store
from ratchet.store.publishing import Transaction
from tests.runs.test_requests import OUTCOMES, TRAINED


def keep_plan(store: Store, made: RunPlan) -> RunPlan:
    """Write a plan, as planning does."""
    assert store.create(paths.plan(made.spec.name, made.run_id), made.model_dump_json(by_alias=True).encode())
    store.create(paths.night(made.spec.name, made.data_date, made.run_id), b"")
    return made


def keep(store: Store, made: RunPlan, *ended: Outcome) -> None:
    """Write how stages of a run ended."""
    for outcome in ended:
        key = paths.outcome(made.spec.name, made.run_id, outcome.stage)
        assert store.create(key, outcome.model_dump_json(by_alias=True).encode())


def kept(store: Store, made: RunPlan, stage: Stage) -> Outcome:
    """How a stage of a run ended, as it is recorded."""
    return Outcome.model_validate_json(store.read(paths.outcome(made.spec.name, made.run_id, stage)))


def training(store: Store, made: RunPlan, attempt: str = "a") -> Work:
    """The training of a run whose earlier stages have ended."""
    request = compose(store, made, "train", OUTCOMES, attempt)
    return Work(store=store, plan=made, request=request, because="no result is stored yet")


def publish(work: Work, attempt: str = "another", **parts: str) -> PublishedResult:
    """Publish some result of a training, and mark it as built."""
    transaction = Transaction(work.store, work.request.prefix, attempt)
    transaction.add_bytes("weights", b"0123456789")
    found = transaction.commit(
        stage=work.request.stage,
        fingerprint=work.request.fingerprint,
        parts={**work.request.parts, **parts},
        content=digest(b"weights"),
        summary=TRAINED,
        timings={"fit": 90.0, "load": 30.0},
    )
    work.store.create(paths.built(work.plan.spec.name, work.request.stage, work.request.fingerprint), b"")
    return found
