"""The first and the last part of a text, whatever its length."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.runs.excerpt import Excerpt


def excerpt(lines: list[str], part_bytes: int) -> list[str]:
    made = Excerpt(part_bytes)
    for line in lines:
        made.add(line)
    return list(made.lines())


def test_a_short_text_is_whole() -> None:
    assert excerpt(["a", "b", ""], 10) == ["a", "b", ""]


def test_of_a_long_text_the_first_and_the_last_lines_are_kept_and_a_line_counts_the_others() -> None:
    kept = excerpt([f"{number:04}" for number in range(1000)], 20)
    assert kept == ["0000", "0001", "0002", "0003", "[992 lines (4,960 bytes) are left out here]",
                    "0996", "0997", "0998", "0999"]  # fmt: skip


def test_a_long_line_ends_with_how_much_of_it_is_left_out() -> None:
    (kept,) = excerpt(["x" * 1000], 100)
    assert kept.startswith("xxx")
    assert kept.endswith(" [901 more bytes]")
    assert len(kept) < 100


def test_a_text_of_empty_lines_takes_little_more_memory_than_its_bytes() -> None:
    part_bytes, made = 32 << 10, Excerpt(32 << 10)
    tracemalloc.start()
    for _ in range(3 * part_bytes):
        made.add("")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 2 * part_bytes * 12  # a pointer for each line


@pytest.mark.parametrize("part_bytes", [64, 500])
@given(st.lists(st.text(max_size=300)))
def test_no_text_is_longer_than_its_bound(part_bytes: int, lines: list[str]) -> None:
    kept = excerpt(lines, part_bytes)
    assert sum(len(line.encode("utf-8", "replace")) + 1 for line in kept) <= 2 * part_bytes + 80
    short = [line for line in lines if len(line.encode("utf-8", "replace")) < part_bytes]
    if sum(len(line.encode("utf-8", "replace")) + 1 for line in lines) <= part_bytes:
        assert kept == short
