"""The text of a digest: its counts, its groups, and its length."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ratchet.runs.digest_runs import Ran, State, in_one_line
from ratchet.runs.digest_text import Digest

NIGHTS = "https://airflow.example.org/ratchet/nights"


def ran(number: int, *states: State) -> Ran:
    return Ran(pipeline=f"p{number:03}", states=frozenset(states), text=f"p{number:03} 2026-11-26: {states[0]}")


def digest(**changes: Any) -> Digest:
    since = datetime(2026, 11, 26, 7, 30, tzinfo=UTC)
    given: dict[str, Any] = {"since": since, "pipelines": 1, "ran": (), "waits": (), "nights": NIGHTS}
    return Digest(**{**given, **changes})


@pytest.mark.parametrize(
    ("runs", "waits", "title"),
    [
        ((), (), "Ratchet: nothing ran"),
        ((), ("a",), "Ratchet: nothing ran, 1 waits for you"),
        ((ran(1, "rejected"),), (), "Ratchet: 1 ran"),
        (
            (ran(1, "failed", "promoted"), ran(2, "failed"), ran(3, "withheld")),
            ("a", "b"),
            "Ratchet: 3 ran, 1 promoted, 2 failed, 2 wait for you",
        ),
    ],
)
def test_the_title_says_the_counts(runs: tuple[Ran, ...], waits: tuple[str, ...], title: str) -> None:
    made = digest(ran=runs, waits=waits)
    assert made.title == title
    assert made.is_well == ("failed" not in title and "wait" not in title)


def test_a_team_without_a_run_is_told_so() -> None:
    assert digest(pipelines=3).body == "3 pipelines, since 2026-11-26 07:30 UTC\n\nNothing ran"


def test_the_worst_comes_first_and_what_failed_or_was_promoted_has_its_page() -> None:
    runs = [ran(1, "rejected"), ran(2, "promoted"), ran(3, "withheld"), ran(4, "failed"), ran(5, "inconclusive")]
    assert digest(pipelines=7, ran=runs, waits=["p006 2026-11-26: not started"]).body.splitlines() == [
        "7 pipelines, since 2026-11-26 07:30 UTC",
        "",
        "Waits for you: 1",
        "  p006 2026-11-26: not started",
        "",
        "Failed: 1",
        f"  p004 2026-11-26: failed  {NIGHTS}/p004",
        "",
        "Promoted and withheld: 2",
        f"  p003 2026-11-26: withheld  {NIGHTS}/p003",
        f"  p002 2026-11-26: promoted  {NIGHTS}/p002",
        "",
        "The rest: 2",
        f"  p005 2026-11-26: inconclusive  {NIGHTS}/p005",
        f"  p001 2026-11-26: rejected  {NIGHTS}/p001",
        "",
        "2 pipelines did not run",
    ]


def test_the_nights_of_200_pipelines_fit_on_a_screen() -> None:
    made = digest(pipelines=200, ran=[ran(number, "rejected") for number in range(193)])
    lines = made.body.splitlines()
    assert len(lines) == 26
    assert lines[2:4] == ["The rest: 193", f"  p000 2026-11-26: rejected  {NIGHTS}/p000"]
    assert lines[-3:] == ["  and 173 more", "", "7 pipelines did not run"]


def test_a_cause_is_short_in_one_line_and_without_secrets() -> None:
    said = in_one_line("no answer of\n  postgresql://me:sesame@db/shop " + "x" * 300)
    assert said.startswith("no answer of postgresql://me:***@db/shop xxx")
    assert said.endswith("x...")
    assert len(said) == 203
