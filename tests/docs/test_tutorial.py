"""The tutorial does what it says: each command runs as it is written, and prints what the page shows."""

import json
import re
from datetime import date

import pytest

from tests.docs.blocks import commands, shows
from tests.docs.conftest import Tutorial

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("docs"), pytest.mark.timeout(1200)]
COMMANDS = commands("tutorial.md")
FIRST, BETTER, REFUSED, NIGHTS, USE = 5, 6, 7, 8, 9


def test_it_takes_ten_commands() -> None:
    numbers = [int(command.heading.partition(".")[0]) for command in COMMANDS]
    assert numbers == list(range(1, 11))


@pytest.mark.parametrize("place", range(len(COMMANDS)), ids=[command.heading for command in COMMANDS])
def test_a_command_succeeds_and_prints_what_the_page_shows(tutorial: Tutorial, place: int) -> None:
    done = tutorial.done[place]
    assert done.code == 0, done.printed
    assert shows(COMMANDS[place].shown, done.printed), f"shown:\n{COMMANDS[place].shown}\nprinted:\n{done.printed}"


def test_the_first_model_goes_in_and_a_better_one_takes_over(tutorial: Tutorial) -> None:
    ledger = sorted((tutorial.store / "ledger" / "late-orders").glob("[0-9]*.json"))
    records = [json.loads(path.read_bytes())["document"] for path in ledger]
    assert [(record["version"], record["baseline"], record["data_date"]) for record in records] == [
        ("1", None, "2026-11-19"),
        ("2", 1, "2026-11-20"),
    ]


def test_the_refused_night_trains_nothing_and_names_a_page_that_exists(tutorial: Tutorial) -> None:
    printed = tutorial.done[REFUSED].printed
    assert printed.endswith("exit code 65\n")
    named = re.search(r"read (\S+\.html) in the store", printed)
    assert named
    assert "distance_km" in (tutorial.store / named[1]).read_text(encoding="utf-8")
    assert not re.search(r"^ +train ", printed, re.MULTILINE)


@pytest.mark.parametrize("place", [FIRST, BETTER, REFUSED])
def test_each_night_has_a_report_to_open(tutorial: Tutorial, place: int) -> None:
    named = re.search(r"^  report (\S+)$", tutorial.done[place].printed, re.MULTILINE)
    assert named
    assert "late-orders" in (tutorial.folder / named[1]).read_text(encoding="utf-8")


def test_the_page_of_all_nights_has_a_line_for_each(tutorial: Tutorial) -> None:
    page = (tutorial.folder / "nights.html").read_text(encoding="utf-8")
    assert [day for day in range(19, 22) if str(date(2026, 11, day)) in page] == [19, 20, 21]


def test_the_scores_are_the_chances_that_the_page_talks_about(tutorial: Tutorial) -> None:
    far, near = (float(score) for score in tutorial.done[USE].printed.strip("[]\n").split())
    assert far == pytest.approx(0.42, abs=0.05)
    assert near == pytest.approx(0.12, abs=0.05)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [("a ...\nd", "a b\nc\nd"), ("done  0.8 s", "done     12.4 s"), ("done     0.8 s", "done  112.4 s")],
)
def test_measured_numbers_may_differ_from_the_page(shown: str, printed: str) -> None:
    assert shows(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("version 2", "version 1"),
        ("promote: auc 0.7", "reject: auc 0.7"),
        ("exit code 65", "exit code 65\nand more"),
        ("[0.42 0.12]", "[0.42]"),
    ],
)
def test_words_and_whole_numbers_may_not(shown: str, printed: str) -> None:
    assert not shows(shown, printed)
