"""What a stage printed while nobody followed it is in a log of the store, without secrets."""

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from ratchet.contracts.request import Outcome
from ratchet.runners.process import ProcessRunner
from ratchet.runs.leftovers import read_leftovers
from ratchet.runs.outcomes import outcome_of
from ratchet.runs.stage_record import StageRecord
from ratchet.runs.work import Work
from ratchet.store.file import FileStore
from ratchet.store.lease import Waiter, holder_of, new_lease
from tests.runs.recorded import keep, publish
from tests.runs.test_requests import OUTCOMES
from tests.runs.test_try_log import running

CANARY = "canary-7f3a9"
PRINTS = f"print('the last words, with {CANARY}', flush=True)"


class DurableRunner(ProcessRunner):
    """Processes whose jobs count as those of an engine, which outlive their follower."""

    durable = True


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    """A training whose own code prints a secret that the environment has."""
    monkeypatch.setenv("SHOP_TOKEN", CANARY)
    work = running(FileStore(tmp_path / "store"), PRINTS)
    keep(work.store, work.plan, *(outcome for stage, outcome in OUTCOMES.items() if stage != "train"))
    return work


def end_unfollowed(work: Work) -> tuple[Outcome, list[str]]:
    """Publish a training, and let it end while nobody follows it; how the next try records it, and what it hears."""
    runner, heard = DurableRunner(), []
    runner.wait(runner.submit(work.job), timeout_s=60)
    found = outcome_of(publish(work, attempt=work.attempt), cached=True, because="its result is stored")
    with StageRecord(work.store, work.plan, "train") as record:
        record.last_lines, record.log = read_leftovers(
            work.store, work.plan, found, runner, name=uuid.uuid4().hex, on_event=lambda it: heard.append(it.message)
        )
        outcome = record.end(found)
    assert runner.find(work.labels()) == []
    return outcome, heard


def test_no_secret_of_it_is_passed_on_or_stored(work: Work) -> None:
    outcome, heard = end_unfollowed(work)
    assert "the last words, with ***" in heard
    assert outcome.last_lines == ("the last words, with ***",)
    assert isinstance(work.store, FileStore)
    leaks = [file for file in work.store.root.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()]
    assert leaks == []


def test_its_log_is_that_of_the_attempt_that_published(work: Work) -> None:
    outcome, _ = end_unfollowed(work)
    assert outcome.log == "runs/small/r/train.1.log"
    assert work.store.read(outcome.log).decode().splitlines() == [
        "# small r: train, attempt a",
        "# an earlier follower of the same try has read the lines before these",
        "the last words, with ***",
        "# ended with exit code 0",
    ]


def test_it_is_read_although_the_lease_is_still_that_of_an_attempt_of_this_installation(work: Work) -> None:
    """Its worker was in a container that is gone, so nobody sees that its process is dead."""
    ours = replace(work, plan=work.plan.model_copy(update={"installation": "team"}))
    ours.__dict__["job"] = work.job
    died = new_lease(ours.plan.run_id, "a", installation="team").model_copy(update={"process": None})
    hold = Waiter(ours.store, ours.lease, died).take()
    assert hold is not None
    assert hold.hand_over()
    _, heard = end_unfollowed(ours)
    assert "the last words, with ***" in heard
    assert holder_of(ours.store, ours.lease) is None
