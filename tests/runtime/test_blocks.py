"""A sum over days depends on the days alone, and not on which blocks are stored."""

from collections.abc import Callable
from datetime import date, timedelta
from secrets import token_hex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.contracts.errors import Unavailable
from ratchet.runtime.blocks import FITTED, Blocks
from ratchet.store.base import Store
from ratchet.store.memory import MemoryStore

FIRST = date(2026, 1, 1)


def over(
    store: Store,
    days: dict[date, str],
    read: list[date] | None = None,
    may_write: Callable[[], None] = lambda: None,
    damaged: list[str] | None = None,
) -> list[str]:
    """Sums whose bits depend on the order and on how the days are put together. read: gets each day that is read."""

    def leaf(day: date) -> str:
        if read is not None:
            read.append(day)
        return days[day]

    return Blocks(
        store=store,
        pipeline="clicks",
        kind=FITTED,
        version="1",
        leaf=leaf,
        merge=lambda parts: f"({' '.join(parts)})",
        write=str.encode,
        read=bytes.decode,
        may_write=may_write,
        on_damaged=(damaged if damaged is not None else []).append,
    ).over(days)


def empty() -> Store:
    return MemoryStore(token_hex(8))


nights = st.lists(
    st.dictionaries(st.integers(0, 40), st.sampled_from("abc"), min_size=1, max_size=41), min_size=1, max_size=6
)


@settings(max_examples=60, deadline=None)
@given(nights)
def test_the_same_days_give_the_same_bits_whatever_is_stored(windows: list[dict[int, str]]) -> None:
    warm = empty()
    for window in windows:
        days = {FIRST + timedelta(days=at): f"{at}{text}" for at, text in window.items()}
        found = over(warm, days)
        assert found == over(empty(), days)
        said = [word.strip("()") for part in found for word in part.split()]
        assert said == [days[day] for day in sorted(days)]


def test_a_year_is_read_as_a_few_blocks_and_a_night_makes_about_one() -> None:
    store, read = empty(), list[date]()
    days = {FIRST + timedelta(days=at): str(at) for at in range(400)}
    over(store, {day: days[day] for day in list(days)[:365]})
    made = []
    for night in range(1, 33):
        window = {day: days[day] for day in list(days)[night : night + 365]}
        before = len([*store.list()])
        assert len(over(store, window, read)) <= 17
        made.append(len([*store.list()]) - before)
    assert sum(made) <= 36
    assert len(read) <= 32 * 3  # days at the ends of a window, and the two of a new block


def test_a_corrected_day_makes_only_the_blocks_again_that_have_it() -> None:
    store, days = empty(), {FIRST + timedelta(days=at): str(at) for at in range(256)}
    over(store, days)
    before = len([*store.list()])
    over(store, {**days, FIRST + timedelta(days=100): "corrected"})
    assert 5 <= len([*store.list()]) - before <= 8


@pytest.mark.parametrize("damage", [b"", b"0\nwrong", b"\xff"])
def test_a_damaged_block_is_made_again_and_said(damage: bytes) -> None:
    store, days = empty(), {FIRST + timedelta(days=at): str(at) for at in range(8)}
    found = over(store, days)
    stored = {entry.key: store.read(entry.key) for entry in store.list()}
    for entry in list(store.list()):
        assert store.replace(entry.key, damage, expected=entry.etag)
    damaged = list[str]()
    assert over(store, days, damaged=damaged) == found
    assert sorted(damaged) == sorted(stored)
    assert over(store, days, damaged=damaged) == found
    assert len(damaged) == len(stored)
    assert {entry.key: store.read(entry.key) for entry in store.list()} == stored


def test_a_stage_that_may_publish_nothing_any_more_keeps_no_block() -> None:
    def refuse() -> None:
        raise Unavailable("rows were removed", remedy="run again")

    store, days = empty(), {FIRST + timedelta(days=at): str(at) for at in range(8)}
    with pytest.raises(Unavailable):
        over(store, days, may_write=refuse)
    assert list(store.list()) == []
