"""An interval is due once when it is over; laps add up to the time that passed."""

import time

import pytest

from tasks.train.timing import Interval, Stopwatch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_an_interval_is_due_once_each_time_it_is_over(clock: list[float]) -> None:
    interval, due = Interval(10), []
    for second in range(100, 136):
        clock[0] = float(second)
        if interval.is_due():
            due.append(second)
    assert due == [110, 120, 130]


def test_an_interval_of_no_seconds_is_always_due(clock: list[float]) -> None:
    interval = Interval(0)
    assert [interval.is_due() for _ in range(3)] == [True, True, True]


def test_laps_follow_one_another_without_a_gap(clock: list[float]) -> None:
    watch = Stopwatch()
    clock[0] = 103.0
    assert watch.lap() == 3.0
    clock[0] = 110.5
    assert (watch.lap(), watch.lap()) == (7.5, 0.0)
