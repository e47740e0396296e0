"""Stages that run longer than their keys are valid: the worker renews them."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ratchet.contracts.errors import Unavailable
from ratchet.runners.docker import DockerRunner
from ratchet.runners.following import follow_to_end
from ratchet.runners.job import Job
from ratchet.runs import renewing
from ratchet.runs.events import Event
from ratchet.runs.renewing import keys_renewed
from tests.faults.ticking import ticking
from tests.faults.trainings import trained, trainings
from tests.s3 import S3Server
from tests.s3_tokens import Tokens, s3_with_tokens
from tests.waiting import until

WAITS = "until grep -q new /run/ratchet/secrets/aws-credentials; do sleep 0.1; done; id -u; ls /run/ratchet/secrets"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewing, "EVERY_S", 0.1)


@pytest.fixture
def tokens(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tokens]:
    keys = tmp_path / "keys"
    with s3_with_tokens(s3.endpoint, keys) as made:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
        monkeypatch.setenv("AWS_ENDPOINT_URL", made.endpoint)
        yield made


@pytest.mark.heavy
def test_a_training_outlives_the_token_that_it_began_with(s3: S3Server, tokens: Tokens, tmp_path: Path) -> None:
    said: list[str] = []

    def hear(event: Event) -> None:
        said.append(event.message)
        if event.message in {"tick 5", "tick 40"}:  # each token is valid until the one after the next is there
            tokens.renew(overlap=True)

    uri = f"s3://{s3.bucket}/{uuid.uuid4().hex}"
    (tmp_path / "work").mkdir()
    with trainings(tmp_path / "work", None, model=ticking(0.05), rows_per_day=1000, store_uri=uri) as made:
        plan = made.plan("r", **{"train.batch_size": 64, "train.epochs": 2})
        made.prepare(plan)
        outcome = made.train(plan, hear)
    assert outcome.state == "done"
    assert trained(outcome).resumed_from is None
    assert "tick 40" in said
    assert not any("session-token" in line for line in said)


@pytest.mark.docker
def test_a_container_that_runs_gets_the_new_file(stage_image: str) -> None:
    runner = DockerRunner()
    job = Job(
        name="keys", request=b"{}", image=stage_image, secrets={"aws-credentials": b"old"}, grace_s=1, timeout_s=60,
        command=("sh", "-c", WAITS),
    )  # fmt: skip
    handle = runner.submit(job)
    runner.renew(handle, "aws-credentials", b"new")
    ended = follow_to_end(runner, handle, job, lambda _: None)
    assert (ended.exit_code, ended.timed_out) == (0, False)
    assert ended.tail[-1].text == "aws-credentials"


def test_keys_that_cannot_be_asked_for_are_asked_for_again_and_the_same_are_not_passed_on() -> None:
    answers: list[bytes | None] = [None, b"1", b"1", b"2"]
    passed: list[bytes] = []

    def ask() -> bytes | None:
        answer = answers.pop(0) if answers else b"2"
        if answer is None:
            raise Unavailable("the role does not answer")
        return answer

    with keys_renewed(ask, passed.append, given=b"1"):
        until(lambda: passed == [b"2"], seconds=20)
        until(lambda: not answers, seconds=20)
    assert passed == [b"2"]


@pytest.mark.parametrize("failure", [OSError("no such program"), ValueError("half a document")])
def test_no_failure_ends_the_questions_and_a_long_one_is_an_error(
    failure: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(renewing, "EVERY_S", 0.01)
    monkeypatch.setattr(renewing, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    failing, passed = [failure], list[bytes]()

    def ask() -> bytes:
        for error in failing:
            raise error
        return b"2"

    def levels() -> set[str]:
        return {record.levelname for record in caplog.records if str(failure) in record.getMessage()}

    with keys_renewed(ask, passed.append, given=b"1"):
        until(levels, seconds=20)
        assert levels() == {"WARNING"}
        clock[0] = renewing.SILENT_S
        until(lambda: levels() == {"WARNING", "ERROR"}, seconds=20)
        failing.clear()
        until(lambda: passed == [b"2"], seconds=20)


def test_a_stage_that_was_found_gets_its_keys_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewing, "EVERY_S", 600.0)
    passed: list[bytes] = []
    with keys_renewed(lambda: b"1", passed.append, given=None):
        until(lambda: passed == [b"1"], seconds=20)
