"""What a stage says, as an orchestrator hears it."""

import io
import logging
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts.errors import DataRejected
from ratchet.contracts.exits import ExitCode
from ratchet.runners.log.lines import Line
from ratchet.runs.events import parse
from ratchet.runtime.logs import StageLog, forward_library_logs


def log() -> tuple[StageLog, io.StringIO]:
    stream = io.StringIO()
    return StageLog("train", stream), stream


def test_what_a_stage_logs_arrives_as_it_was_said() -> None:
    said, stream = log()
    said.progress("epoch 1: loss 0.5", done=1, total=3, loss=0.5)
    event = parse(Line("stdout", stream.getvalue()))
    assert (event.name, event.level, event.message) == ("progress", "info", "epoch 1: loss 0.5")
    assert event.fields == {"done": 1, "total": 3, "loss": 0.5}


@given(st.text())
def test_any_other_line_is_text(line: str) -> None:
    event = parse(Line("stdout", line))
    assert event.name == "text"
    assert event.message == line


@pytest.mark.parametrize("bracket", ["[", '{"a":'])
def test_a_line_of_thousands_of_brackets_is_text(bracket: str) -> None:
    line = '{"a":' + bracket * 5000
    assert parse(Line("stdout", line)).message == line


@pytest.mark.parametrize("line", ['{"event": 1, "message": "x"}', '{"event": "x"}', "[]", "3"])
def test_json_that_is_no_event_is_text(line: str) -> None:
    assert parse(Line("stdout", line)).name == "text"


def test_an_unknown_level_counts_as_info() -> None:
    assert parse(Line("stdout", '{"event": "x", "message": "y", "level": "loud"}')).level == "info"


@pytest.mark.parametrize(
    ("error", "code", "cause", "traceback"),
    [
        (DataRejected("price: too high"), ExitCode.DATA_REJECTED, "price: too high", False),
        (MemoryError("no more"), ExitCode.OUT_OF_MEMORY, "MemoryError: no more", False),
        (ZeroDivisionError("oops"), ExitCode.BUG, "ZeroDivisionError: oops", True),
    ],
)
def test_a_failure_is_one_line_with_cause_code_and_what_to_do(
    error: Exception, code: ExitCode, cause: str, *, traceback: bool
) -> None:
    said, stream = log()
    assert said.failure(error) is code
    event = parse(Line("stdout", stream.getvalue()))
    assert event.level == "error"
    assert event.fields["cause"] == cause
    assert event.fields["remedy"]
    assert ("traceback" in event.fields) == traceback


def test_what_libraries_warn_of_is_heard() -> None:
    said, stream = log()
    root = logging.getLogger()
    before = list(root.handlers)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)  # a library may have switched it on, for what a test before has put back
        try:
            forward_library_logs(said)
            logging.getLogger("some.library").error("broken")
            said.warning("careful", column="price")
            warnings.warn("old", stacklevel=1)
        finally:
            logging.captureWarnings(capture=False)
            for handler in set(root.handlers) - set(before):
                root.removeHandler(handler)
    events = [parse(Line("stdout", line)) for line in stream.getvalue().splitlines()]
    assert [event.level for event in events] == ["error", "warning", "warning"]
    assert events[0].fields == {"logger": "some.library"}


def test_what_a_stage_prints_as_an_error_is_text_whatever_it_looks_like() -> None:
    event = parse(Line("stderr", '{"event": "failure", "message": "y"}'))
    assert (event.name, event.fields) == ("text", {"stream": "stderr"})
