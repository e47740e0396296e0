import re
from datetime import date
from typing import Any

import pytest

from ratchet.contracts.judgements import Interval
from ratchet.runs.history_page import in_words, page
from ratchet.runs.run_index import RunLine

HOSTILE = '<script>alert("1")</script>{{ 7 * 7 }}'


def night(day: int, **values: Any) -> RunLine:
    common: dict[str, Any] = {
        "run_id": f"run-{day}",
        "kind": "local",
        "standing": "promote",
        "gain": Interval(value=0.02, low=0.01, high=0.03),
        "would_promote": True,
        "promoted": True,
        "version": "7",
        "cause": "better",
        "cached": False,
    }
    return RunLine(**{"day": date(2026, 3, day), **common, **values})


NOTHING = {"gain": None, "would_promote": False, "promoted": False, "version": ""}


def test_every_date_has_a_line_with_verdict_gain_version_and_cause() -> None:
    found = page("shop", [night(16), night(17, standing="failed", cause="ingest: no data", **NOTHING)])
    for expected in ("2026-03-16 to 2026-03-17", "+2 %", ">7<", "better", "ingest: no data", 'class="mark bad">failed'):
        assert expected in found
    assert found.count("<svg") == 1


@pytest.mark.parametrize(
    ("would", "did", "asks", "shown"),
    [
        (True, True, False, "yes"),
        (True, False, False, "would have"),
        (False, False, False, "no"),
        (True, False, True, "waits for approval"),
    ],
)
def test_a_line_says_whether_production_moved_or_would_have(would: bool, did: bool, asks: bool, shown: str) -> None:
    found = page("shop", [night(16, would_promote=would, promoted=did, asks=asks)])
    assert f'<td class="nowrap">{shown}</td>' in found


def test_all_gains_have_one_axis() -> None:
    wide = Interval(value=0.2, low=0.0, high=0.4)
    found = page("shop", [night(16, gain=wide), night(17)])
    zeros = re.findall(r'class="axis-zero" x1="([\d.]+)"', found)
    dots = [float(x) for x in re.findall(r'class="dot" cx="([\d.]+)"', found)]
    assert len(zeros) == 2
    assert zeros[0] == zeros[1]
    assert dots[0] > dots[1]


def test_the_same_lines_give_the_same_bytes_and_no_lines_a_page() -> None:
    assert page("shop", [night(16)]) == page("shop", [night(16)])
    assert "<b>0</b>" in page("shop", [])


def test_hostile_text_is_shown_and_not_executed() -> None:
    found = page("shop", [night(16, cause=HOSTILE, version=HOSTILE)])
    assert "<script" not in found
    assert found.count("{{ 7 * 7 }}") == 2


def test_dates_are_counted_by_how_they_ended() -> None:
    lines = [night(16), night(17), night(18, standing="failed", **NOTHING)]
    assert in_words(lines) == "promote 2, failed 1"
    assert in_words([]) == "no runs"
