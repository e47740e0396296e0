"""Events of a stage as lines of a task's log."""

import logging

from ratchet_airflow.progress import level_of, line_of
from tasks.chain.events import Event, parse


def test_progress_shows_its_share_and_its_numbers() -> None:
    event = parse(
        '{"event": "progress", "message": "epoch 2", "level": "info", "done": 4, "total": 10, "loss": 0.31234}'
    )
    assert line_of(event) == "[ 40%] epoch 2 (loss 0.3123)"


def test_a_failure_has_its_traceback_below() -> None:
    event = Event(name="failure", level="error", message="broke", fields={"code": 70, "traceback": "Traceback ..."})
    assert line_of(event) == "broke\nTraceback ..."
    assert level_of(event) == logging.ERROR


def test_nothing_is_said_twice() -> None:
    event = Event(name="info", level="info", message="published a/b", fields={"key": "a/b", "reused": False})
    assert line_of(event) == "published a/b (reused False)"


def test_what_a_library_prints_stands_as_it_is() -> None:
    assert line_of(parse("Downloading [====]")) == "Downloading [====]"


def test_progress_without_a_total_is_only_its_message() -> None:
    assert line_of(Event(name="progress", level="info", message="reading", fields={"done": 3, "total": 0})) == "reading"
