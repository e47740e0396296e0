"""The picture of what a backfill would have promoted."""

from datetime import date, timedelta

from ratchet.contracts.judgements import Interval
from ratchet.runs.history_page import page
from ratchet.runs.run_index import RunLine
from ratchet.runs.winners_chart import chart, in_office

DAY = date(2026, 3, 1)
PROMOTE = (False, True, False, True, False)


def lines(chain: str = "c", count: int = 5) -> list[RunLine]:
    return [
        RunLine(
            day=DAY + timedelta(days=number),
            run_id=f"r{number}",
            kind="local",
            standing="promote" if PROMOTE[number % 5] else "reject",
            gain=Interval(value=0.01 * number, low=0.01 * number - 0.02, high=0.01 * number + 0.02),
            would_promote=PROMOTE[number % 5],
            promoted=False,
            version="",
            cause="",
            cached=False,
            chain=chain,
        )
        for number in range(count)
    ]


def test_a_winner_is_in_office_from_its_date_until_the_next_one() -> None:
    assert in_office(lines()) == ["", "02 Mar", "02 Mar", "04 Mar", "04 Mar"]


def test_the_page_of_a_backfill_shows_each_date_and_each_winner() -> None:
    drawn = page("small", lines())
    assert "What we would have promoted" in drawn
    assert drawn.count("class=&#34;office&#34;") + drawn.count('class="office"') == 2
    assert drawn.count("<title>2026-03-") == 5
    assert "2026-03-02: promote, +1" in drawn
    assert "over a constant scorer" in drawn


def test_nights_without_a_chain_have_no_picture() -> None:
    assert chart(lines(chain="")) is None
    assert chart(lines(count=1)) is None
    assert chart([]) is None
