import io

from hypothesis import given
from hypothesis import strategies as st

from tasks.runners.entries import Position

TIMES = [f"2026-11-21T10:46:00.{nanos:09}Z" for nanos in (0, 1, 999_999_999)]


def _body(log: list[tuple[int, str]]) -> io.BytesIO:
    frames = [f"{time} {number}".encode() for number, time in log]
    return io.BytesIO(
        b"".join(bytes([1 + n % 2, 0, 0, 0]) + len(f).to_bytes(4, "big") + f for n, f in enumerate(frames))
    )


def test_a_position_in_the_log_is_said_in_seconds_and_nanoseconds() -> None:
    assert Position().since == {}
    assert Position("2026-11-21T10:46:00.000000001Z", 1).since == {"since": "1795257960.000000001"}


def test_streams_are_told_apart_and_the_time_is_taken_off() -> None:
    assert list(Position().entries(_body([(7, TIMES[0]), (8, TIMES[0])]))) == [("stdout", b"7"), ("stderr", b"8")]


@given(
    st.lists(st.sampled_from(TIMES), max_size=12).map(sorted),
    st.lists(st.integers(0, 12), max_size=4),
    st.integers(0, 20),
)
def test_a_log_that_breaks_off_anywhere_and_is_read_on_comes_whole_and_once(
    times: list[str], breaks: list[int], torn: int
) -> None:
    log = list(enumerate(times))
    position, read = Position(), []
    for length in [*breaks, len(log)]:
        start = next((n for n, (_, time) in enumerate(log) if time >= position.time), len(log))
        body = _body(log[start : start + length] if length < len(log) else log[start:])
        whole = body.getvalue()
        if length < len(log):
            body = io.BytesIO(whole[: max(0, len(whole) - torn)])
        read += [int(text) for _, text in position.entries(body)]
    assert read == [number for number, _ in log]
