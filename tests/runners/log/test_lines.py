import re

from hypothesis import given
from hypothesis import strategies as st

from ratchet.runners.log.lines import Line, Splitter


def _split(pieces: list[bytes], longest: int = 1 << 16) -> list[str]:
    splitter = Splitter("stdout", longest)
    lines: list[Line] = []
    for piece in pieces:
        lines += splitter.feed(piece)
    lines += splitter.close()
    return [line.text for line in lines]


def test_newline_return_and_both_together_each_end_a_line_once() -> None:
    assert _split([b"a\nb\rc\r\nd"]) == ["a", "b", "c", "d"]


def test_an_empty_line_is_a_line() -> None:
    assert _split([b"a\n\nb\n"]) == ["a", "", "b"]


def test_a_return_and_its_newline_may_come_in_different_pieces() -> None:
    assert _split([b"a\r", b"\nb"]) == ["a", "b"]


def test_nothing_is_no_line() -> None:
    assert _split([b"", b""]) == []


def test_a_line_past_the_longest_is_cut_and_says_by_how_much() -> None:
    assert _split([b"x" * 7, b"y" * 5 + b"\nz"], longest=10) == ["x" * 7 + "yyy [2 more bytes]", "z"]


def test_bytes_that_are_not_text_do_no_harm() -> None:
    assert _split([b"\xff\n"]) == ["\N{REPLACEMENT CHARACTER}"]


@given(st.lists(st.binary(max_size=8) | st.sampled_from([b"\r", b"\n", b"\r\n", b"ab\r"])))
def test_how_a_stream_is_cut_into_pieces_does_not_matter(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    expected = [part.decode(errors="replace") for part in re.split(rb"\r\n|\r|\n", whole)]
    assert _split(pieces) == (expected[:-1] if expected[-1] == "" else expected)
