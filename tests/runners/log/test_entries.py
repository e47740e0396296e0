import io
from dataclasses import dataclass
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from ratchet.runners.log.entries import read_lines
from ratchet.runners.log.lines import Line
from ratchet.runners.log.position import Position

BASE = "2026-11-21T10:46:0"
TIMES = [f"{BASE}{rest}Z" for rest in ("0.000000000", "0.000000001", "0.999999999", "3.000000000", "9.000000000")]
TEXTS = ["a\n", "\n", "b", "c\rd\r", "\nlate\n", "e\r\n", "f\ng\rh", "\r", "i\n\nj\n"]


@dataclass
class Body:
    """What an engine sends: frames, in pieces of any size, torn off anywhere."""

    data: bytes
    piece: int = 1 << 20

    def __post_init__(self) -> None:
        self._file = io.BytesIO(self.data)

    def read1(self, amount: int) -> bytes:
        return self._file.read(min(amount, self.piece))


def _frames(log: list[tuple[int, str, str]]) -> bytes:
    frames = [(stream, f"{time} {text}".encode()) for stream, time, text in log]
    return b"".join(bytes([1 + stream, 0, 0, 0]) + len(f).to_bytes(4, "big") + f for stream, f in frames)


def _from(log: list[tuple[int, str, str]], position: Position) -> list[tuple[int, str, str]]:
    """What an engine leaves out: what is older than the moment asked for."""
    if not position.since:
        return log
    since = float(position.since["since"]) - 1795257960
    return [entry for entry in log if float(entry[1].removeprefix(BASE)[:-1]) >= since]


def test_a_line_that_has_begun_is_asked_for_from_its_begin_on() -> None:
    position = Position()
    list(read_lines(Body(_frames([(1, TIMES[0], "a"), (0, TIMES[4], "b\n")])), position))
    assert position.since == {"since": "1795257960.000000"}


def test_each_line_has_its_stream_and_not_its_time() -> None:
    body = Body(_frames([(0, TIMES[0], "7\n"), (1, TIMES[0], "8\n")]))
    assert list(read_lines(body, Position())) == [Line("stdout", "7"), Line("stderr", "8")]


LOGS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from(TIMES), st.sampled_from(TEXTS)), max_size=12)


@given(
    log=LOGS.map(lambda log: sorted(log, key=lambda entry: entry[1])),
    breaks=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 6), st.booleans()), max_size=4),
    piece=st.sampled_from([1, 7, 1 << 20]),
)
def test_a_log_that_breaks_off_anywhere_and_is_read_on_comes_whole_and_once(
    log: list[tuple[int, str, str]], breaks: list[tuple[int, int, bool]], piece: int
) -> None:
    whole = list(read_lines(Body(_frames(log)), Position(), last=True))
    position, read = Position(), []
    for (
        length,
        most,
        by_another,
    ) in breaks:  # the body is torn after so many bytes, the reader killed after so many lines
        lines = read_lines(Body(_frames(_from(log, position))[:length], piece), position)
        read += islice(lines, most)
        lines.close()  # type: ignore[attr-defined]  # it is a generator
        if by_another:
            position = Position.unpack(position.pack()) or position
    for _ in range(2):
        read += read_lines(Body(_frames(_from(log, position)), piece), position, last=True)
    for stream in ("stdout", "stderr"):
        assert [line.text for line in read if line.stream == stream] == [
            line.text for line in whole if line.stream == stream
        ]


@given(LOGS.map(lambda log: sorted(log, key=lambda entry: entry[1])))
def test_entries_come_as_lines_just_as_their_text_alone_does(log: list[tuple[int, str, str]]) -> None:
    lines = list(read_lines(Body(_frames(log)), Position(), last=True))
    for number, stream in enumerate(("stdout", "stderr")):
        texts = [text for of, _, text in log if of == number]
        text = "".join(text.replace("\r\n", "\n").replace("\r", "\n") for text in texts)
        expected = text.removesuffix("\n").split("\n") if text else []
        assert [line.text for line in lines if line.stream == stream] == expected
