"""docs/faults.md lists the tests that bear a fault's number, each in the row of that number, and no test that is gone."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
TEXT = (TESTS.parent / "docs" / "faults.md").read_text(encoding="utf-8")
NUMBERED, UNNUMBERED = TEXT.split("## Faults whose tests have no number")


def rows(text: str) -> dict[int, set[str]]:
    """The paths of each row's tests, by the fault's number."""
    found = re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", text, re.MULTILINE)
    return {int(number): set(re.findall(r"`(\S+\.py)`", tests)) for number, tests in found}


def numbers(name: str) -> list[int]:
    """`test_16_17_scheduler` -> [16, 17]."""
    match = re.match(r"test((?:_\d\d)+)_", name)
    return [int(number) for number in match[1].split("_")[1:]] if match else []


def files_by_number() -> dict[int, set[str]]:
    """Files that bear a number in their name, or in that of one of their functions."""
    found: dict[int, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        functions = re.findall(r"^def (test_\d\d\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
        for name in (path.stem, *functions):
            for number in numbers(name):
                found.setdefault(number, set()).add(path.relative_to(TESTS).as_posix())
    return found


def test_every_numbered_test_is_in_the_row_of_its_number() -> None:
    listed = rows(NUMBERED)
    for number, files in files_by_number().items():
        assert files <= listed.get(number, set()), number


def test_every_row_of_the_numbered_list_has_a_test_of_its_number() -> None:
    assert rows(NUMBERED).keys() == files_by_number().keys()


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`([a-z_]+/\S*test_\w+\.py)`", TEXT))
    assert named
    assert [name for name in sorted(named) if not (TESTS / name).is_file()] == []


def test_no_number_has_two_meanings() -> None:
    assert len(re.findall(r"^\| \d+ \|", TEXT, re.MULTILINE)) == len(rows(NUMBERED)) + len(rows(UNNUMBERED))
    assert not rows(NUMBERED).keys() & rows(UNNUMBERED).keys()
