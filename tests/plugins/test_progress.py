"""Events of a stage as records of a task's log."""

import logging

from ratchet.runners.log.lines import Line
from ratchet.runs.events import Event, parse
from ratchet_airflow.progress import fields_of, level_of, line_of


def test_progress_shows_its_share_and_its_numbers_beside_it() -> None:
    said = '{"event": "progress", "message": "epoch 2", "level": "info", "done": 4, "total": 10, "loss": 0.31234567}'
    event = parse(Line("stdout", said))
    assert line_of(event) == "[ 40%] epoch 2"
    assert fields_of(event) == {"loss": 0.312346}


def test_a_failure_has_its_traceback_below() -> None:
    event = Event(name="failure", level="error", message="broke", fields={"code": 70, "traceback": "Traceback ..."})
    assert line_of(event) == "broke\nTraceback ..."
    assert (level_of(event), fields_of(event)) == (logging.ERROR, {})


def test_a_field_does_not_take_the_place_of_one_of_airflows_own() -> None:
    event = Event(name="info", level="info", message="x", fields={"level": 3, "key": "a/b"})
    assert fields_of(event) == {"stage_level": 3, "key": "a/b"}


def test_what_a_library_prints_is_kept_as_it_is_and_its_errors_are_recognised() -> None:
    assert line_of(parse(Line("stdout", "Downloading [====]"))) == "Downloading [====]"
    assert fields_of(parse(Line("stdout", "Downloading [====]"))) == {}
    assert fields_of(parse(Line("stderr", "Downloading [====]"))) == {"stream": "stderr"}


def test_progress_without_a_total_is_only_its_message() -> None:
    assert line_of(Event(name="progress", level="info", message="reading", fields={"done": 3, "total": 0})) == "reading"
