"""From how a stage's container ended to an error, and to what follows."""

import json
from io import StringIO

import pytest

from ratchet.contracts.errors import CorruptArtifact, Interrupted, NoAnswer, RatchetError, Unavailable
from ratchet.contracts.exits import decide
from ratchet.runners.following import JobEnd
from ratchet.runners.log.lines import Line
from ratchet.runs.failures import failure_of
from ratchet.runs.requests import compose
from ratchet.runtime.logs import StageLog
from ratchet.store.memory import MemoryStore
from tests.runs.test_requests import OUTCOMES, plan

REQUEST = compose(MemoryStore("requests"), plan(), "train", OUTCOMES, "a")
SAID = json.dumps(
    {"event": "failure", "level": "error", "message": "no", "cause": "price: 40 % null", "remedy": "mend it"}
)

INFO = json.dumps({"event": "info", "level": "info", "message": "epoch 1"})


def ended(exit_code: int, *lines: str, out_of_memory: bool = False, timed_out: bool = False, cause: str = "") -> JobEnd:
    tail = tuple(Line(stream="stdout", text=text) for text in lines)
    return JobEnd(
        exit_code=exit_code,
        out_of_memory=out_of_memory,
        timed_out=timed_out,
        seconds=1,
        tail=tail,
        cause=cause,
    )


@pytest.mark.parametrize(
    ("end", "said", "followed_up"),
    [
        (ended(64, SAID), "price: 40 % null", "no retry"),
        (ended(65, SAID), "price: 40 % null", "no retry"),
        (ended(69, SAID), "price: 40 % null", "after a growing delay"),
        (ended(70, SAID), "price: 40 % null", "after a growing delay"),
        (ended(75, SAID), "price: 40 % null", "at once"),
        (ended(75), "train ended with exit code 75 without a reason; its own code may have called os._exit", "at once"),
        (ended(143), "train was stopped by SIGTERM (signal 15) before it had work to save", "at once"),
        (ended(137, out_of_memory=True), "train needed more than its 4096 MiB of memory", "at once"),
        (ended(137), "train was killed from outside", "after a growing delay"),
        (
            ended(137, cause="the Docker engine was restarted"),
            "the Docker engine was restarted",
            "after a growing delay",
        ),
        (ended(0, timed_out=True), "train took longer than 12h and was stopped", "after a growing delay"),
        (ended(75, timed_out=True), "train took longer than 12h and was stopped", "after a growing delay"),
        (ended(139, "Fatal Python error"), "signal 11 (Fatal Python error)", "after a growing delay"),
        (ended(3, "boom"), "exit code 3 (boom)", "after a growing delay"),
        (ended(3, INFO), "exit code 3 (epoch 1)", "after a growing delay"),
    ],
)
def test_an_end_is_named_and_followed_up(end: JobEnd, said: str, followed_up: str) -> None:
    error = failure_of(REQUEST, end)
    assert error is not None
    assert said in error.cause
    assert followed_up in decide(error.code, attempt=1, attempts=3).reason
    assert len(error.last_lines) == len(end.tail)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (CorruptArtifact("the file is cut"), CorruptArtifact),
        (RatchetError("the file is odd"), RatchetError),
        (NoAnswer("the store is away"), NoAnswer),
        (Unavailable("a rank is lost"), Interrupted),  # it cost work, so its tries are counted
    ],
)
def test_what_a_stage_logs_of_its_failure_says_what_kind_it_is(error: RatchetError, kind: type[RatchetError]) -> None:
    written = StringIO()
    code = StageLog("train", written).failure(error)
    found = failure_of(REQUEST, ended(int(code), *written.getvalue().splitlines()))
    assert (type(found), str(found)) == (kind, str(error))


def test_all_well_is_no_error() -> None:
    assert failure_of(REQUEST, ended(0, "done")) is None
