"""The log of a try is in the store, however the try ends, and the error has its address."""

import logging
import sys
import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable
from ratchet.contracts.exits import decide
from ratchet.contracts.masking import Mask
from ratchet.contracts.request import Outcome
from ratchet.runners.docker import DockerRunner
from ratchet.runners.log.lines import Line
from ratchet.runners.process import ProcessRunner
from ratchet.runners.runner import Runner
from ratchet.runs import try_log
from ratchet.runs.attempt import Attempt
from ratchet.runs.stage_record import StageRecord
from ratchet.runs.try_log import PART_BYTES, TryLog
from ratchet.runs.work import Work
from ratchet.store.base import Store
from ratchet.store.file import FileStore
from ratchet.store.memory import MemoryStore
from tests.runs.recorded import kept, publish, training
from tests.runs.test_requests import plan

CANARY = "canary-7f3a9"
FAILS = f"""
import sys
from ratchet.runtime.logs import StageLog
print("printed by the pipeline's own code, with {CANARY}", flush=True)
print("printed on stderr, with {CANARY}", file=sys.stderr, flush=True)
log = StageLog("train")
log.info("epoch 1 of 3")
try:
    [][1]
except IndexError as error:
    sys.exit(int(log.failure(error)))
"""
LONG = """
for number in range(3000):
    print(f"line {number} {'x' * 400}")
"""
PREEMPTED = """
import pathlib, sys
starts = pathlib.Path(sys.argv[1])
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
print(f"start {len(starts.read_text())}", flush=True)
sys.exit(75 if len(starts.read_text()) < 3 else 64)
"""


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def running(store: Store, program: str, *words: str, image: str | None = None) -> Work:
    """A training with a program in the stage's place, which is given a secret."""
    work = training(store, plan({}, store=store.uri))
    secrets = {"environment.json": f'{{"SHOP_LOGIN": "{CANARY}"}}'.encode()}
    python = "python" if image else sys.executable
    job = replace(work.job, command=(python, "-c", program, *words), secrets=secrets, image=image)
    work.__dict__["job"] = job
    return work


def compute(attempt: Attempt) -> Outcome:
    """As an orchestrator does: how it ends is recorded."""
    with StageRecord(attempt.work.store, attempt.work.plan, "train") as record:
        record.attempt = attempt
        return record.end(attempt.compute())


def fail(work: Work, runner: Runner | None = None) -> tuple[Attempt, RatchetError]:
    attempt = Attempt(work, runner or ProcessRunner(), on_event=lambda _: None)
    with pytest.raises(RatchetError) as raised:
        compute(attempt)
    return attempt, raised.value


def check_of_a_bug(store: FileStore, work: Work, error: RatchetError) -> None:
    """The remedy of a bug leads to a file that holds its traceback and what was printed, without the secret."""
    path = store.root / "runs" / "small" / "r" / "train.1.log"
    assert error.cause == "IndexError: list index out of range"
    assert error.remedy == f"read the traceback in the log {path}"
    assert error.log == str(path)
    assert str(path) not in decide(error.code, attempt=1, attempts=3).reason
    text = path.read_text(encoding="utf-8")
    assert "Traceback (most recent call last):\n" in text
    assert "info: epoch 1 of 3\n" in text
    for line in ("printed by the pipeline's own code, with ***\n", "printed on stderr, with ***\n"):
        assert line in text
    assert text.startswith("# small r: train, attempt a\n")
    assert text.endswith("# ended with exit code 70\n")
    assert kept(store, work.plan, "train").log == "runs/small/r/train.1.log"
    leaks = [file for file in store.root.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()]
    assert leaks == []


def test_the_traceback_of_a_process_is_where_the_remedy_says(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    work = running(store, FAILS)
    _, error = fail(work)
    check_of_a_bug(store, work, error)


@pytest.mark.docker
def test_the_traceback_of_a_container_is_where_the_remedy_says(tmp_path: Path, stage_image: str) -> None:
    store = FileStore(tmp_path / "store")
    work = running(store, FAILS, image=stage_image)
    _, error = fail(work, DockerRunner())
    check_of_a_bug(store, work, error)


def test_of_a_log_that_is_read_again_what_is_stored_has_no_secret_nor_the_part_of_one(store: MemoryStore) -> None:
    """A line of more than a part is cut."""
    work = running(store, "")
    for place in (PART_BYTES - 40, PART_BYTES - 26, PART_BYTES - 20):
        with TryLog(work) as log:
            log.take(Line("stdout", f"printed with {CANARY}"))
            log.take(Line("stdout", "x" * place + CANARY + "x" * 100))
        assert log.key is not None
        stored = store.read(log.key).decode()
        assert "printed with ***" in stored
        assert CANARY[:4] not in stored


def test_a_session_token_that_only_an_earlier_follower_knew_is_in_no_stored_log(store: MemoryStore) -> None:
    """As where a role gives the keys: when the attempt goes on elsewhere they are others, and nothing names these."""
    token = "IQoJb3JpZ2luX2VjEGEaCXVzLWVhc3QtMSJIMEYCIQDS5uvHDfvRSzN5TREhLyGjsybV9pFMAMpa6hn8g1habQIhAN0R36Vg=="
    work, printed = running(store, ""), Line("stdout", f"opened with {token}")
    first = TryLog(work)
    first.learn({"aws-credentials": f"aws_session_token = {token}".encode()})
    assert first.mask(printed).text == "opened with ***"
    with TryLog(work) as second:
        second.take(printed)
    assert second.key is not None
    assert "\nopened with ***\n" in store.read(second.key).decode()


def test_a_long_log_is_kept_in_part_and_says_what_is_left_out(store: MemoryStore) -> None:
    work = running(store, LONG)
    fail(work)
    data = store.read("runs/small/r/train.1.log")
    lines = data.decode().splitlines()
    assert len(data) <= 2 * PART_BYTES + 100
    assert (lines[1][:7], lines[-2][:10], lines[-1]) == ("line 0 ", "line 2999 ", "# ended with exit code 0")
    (cut,) = [line for line in lines if line.endswith(" bytes) are left out here]")]
    numbers = [int(line.split()[1]) for line in lines if line.startswith("line ")]
    assert cut.startswith(f"[{3000 - len(numbers):,} lines (")
    assert len(numbers) > 1000


def test_each_try_has_a_log_of_its_own(store: MemoryStore, tmp_path: Path) -> None:
    """A job that is preempted is started again; a later attempt of the same run goes on counting."""
    work = running(store, PREEMPTED, str(tmp_path / "starts"))
    _, error = fail(work)
    assert error.log == f"{store.uri}/runs/small/r/train.3.log"
    fail(work)
    names = [entry.key for entry in store.list("runs/small/r") if entry.key.endswith(".log")]
    assert names == [f"runs/small/r/train.{number}.log" for number in (1, 2, 3, 4)]
    for number, name in enumerate(names, start=1):
        assert f"\nstart {number}\n" in store.read(name).decode()


def test_a_result_that_is_found_has_no_log(store: MemoryStore) -> None:
    work = running(store, "print('done')")
    publish(work, work.attempt)
    ended = compute(Attempt(work, ProcessRunner(), on_event=lambda _: None))
    assert (ended.cached, ended.log) == (True, None)
    assert [entry.key for entry in store.list("runs/small/r") if entry.key.endswith(".log")] == []


class Refusing(MemoryStore):
    """A store that takes no log."""

    def create(self, key: str, data: bytes) -> bool:
        if key.endswith(".log"):
            raise Unavailable("the store is full")
        return super().create(key, data)


def test_a_log_that_cannot_be_stored_changes_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    store = Refusing(uuid.uuid4().hex)
    work = running(store, FAILS)
    with caplog.at_level(logging.WARNING):
        attempt, error = fail(work)
    assert (error.cause, error.remedy) == ("IndexError: list index out of range", "read the traceback in the log")
    assert (attempt.log, error.log, kept(store, work.plan, "train").log) == (None, "", None)
    assert "the log of train is not stored: the store is full" in caplog.text


def test_secrets_are_masked_in_what_is_passed_on_too(store: MemoryStore) -> None:
    heard: list[str] = []
    attempt = Attempt(running(store, FAILS), ProcessRunner(), on_event=lambda event: heard.append(event.message))
    with pytest.raises(RatchetError) as raised:
        attempt.compute()
    printed = [*heard, *attempt.last_lines, *raised.value.last_lines]
    assert any("printed by the pipeline's own code, with ***" in line for line in printed)
    assert not any(CANARY in line for line in printed)


def test_a_job_that_cannot_be_run_has_no_log(store: MemoryStore) -> None:
    work = training(store, plan({}, store=store.uri))
    work.__dict__["job"] = replace(work.job, command=("/does/not/exist",))

    class Broken(ProcessRunner):
        def submit(self, job: object) -> str:
            raise ConfigurationError("no such image")

    attempt, error = fail(work, Broken())
    assert (attempt.log, error.log) == (None, "")


def test_keys_that_are_learnt_while_a_mask_is_made_are_masked(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    making, learnt = Event(), Event()

    class Slow(Mask):
        def __init__(self, secrets: Iterable[str]) -> None:
            super().__init__(secrets)
            making.set()
            learnt.wait(0.5)

    monkeypatch.setattr(try_log, "Mask", Slow)
    log = try_log.TryLog(running(store, ""))
    first = Thread(target=log.mask, args=[Line("stdout", "a")])
    first.start()
    assert making.wait(20)
    log.learn({"aws-credentials": b"aws_secret_access_key = another secret"})
    learnt.set()
    first.join()
    assert log.mask(Line("stdout", "with another secret")).text == "with ***"
