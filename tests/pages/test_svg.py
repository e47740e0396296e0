import re
from datetime import date, timedelta
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from ratchet.contracts.judgements import Interval
from ratchet.pages.svg import WIDE, DayBar, GainAxis, cut, day_chart, round_up, short, svg, text

MONDAY = date(2026, 3, 16)


def bars(count: int, rows: int = 1000) -> list[DayBar]:
    days = [MONDAY + timedelta(days=index) for index in range(count)]
    return [DayBar(day=day, title=f"{day}", bars=(("whole", rows), ("part", rows // 2))) for day in days]


def heights(chart: Markup, kind: str) -> list[float]:
    return [
        float(shape.attrib["height"]) for shape in ET.fromstring(chart).iter("rect") if shape.attrib["class"] == kind
    ]


def test_text_is_escaped_wherever_it_is_in_a_picture() -> None:
    hostile = '"><script>&'
    picture = svg(300, 10, [text(0, 0, hostile, "start")], hostile)
    root = ET.fromstring(picture)
    assert root.attrib["aria-label"] == hostile
    assert [child.text for child in root] == [hostile]


@given(st.floats(1e-6, 1e12))
def test_the_top_of_an_axis_is_the_next_round_number(value: float) -> None:
    assert value <= round_up(value) <= 2 * value


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.5, "0.5"), (8000, "8,000"), (12_345, "12.3k"), (2.5e6, "2.5M"), (3e9, "3G"), (-20_000, "-20k")],
)
def test_a_number_of_an_axis_is_short(value: float, shown: str) -> None:
    assert short(value) == shown


def test_words_that_are_too_long_are_cut_and_say_so() -> None:
    assert cut("country = DE", 12) == "country = DE"
    assert cut("country = DE", 11) == "country = …"


def test_a_larger_gain_is_further_right_and_every_value_is_inside() -> None:
    axis = GainAxis([-0.02, 0.1, 0.0], 10, 200)
    places = [axis(value) for value in (-0.02, 0.0, 0.05, 0.1)]
    assert places == sorted(places)
    assert places[0] > 10
    assert places[-1] < 200


def test_an_axis_of_equal_values_still_has_a_width() -> None:
    axis = GainAxis([0.0, 0.0], 0, 100)
    assert axis(0.0) == 50
    assert "0 %" in "".join(axis.ticks(80, 20))


def test_a_gain_is_drawn_with_its_bounds_and_says_them() -> None:
    axis = GainAxis([-0.01, 0.03], 0, 100)
    drawn = axis.draw(Interval(value=0.01, low=-0.01, high=0.03), 5, 4, kind="good", name="DE")
    assert "<title>DE: +1 % (\N{MINUS SIGN}1 % to +3 %)</title>" in drawn
    assert f'x1="{axis(-0.01):.1f}"' in drawn
    assert f'x2="{axis(0.03):.1f}"' in drawn


def test_bars_by_day_are_as_tall_as_their_rows_on_a_round_scale() -> None:
    chart = day_chart([*bars(2, 1000), *bars(1, 500)])
    assert heights(chart, "whole") == [130.0, 130.0, 65.0]
    assert heights(chart, "part") == [65.0, 65.0, 32.5]
    assert ">1,000<" in chart


@pytest.mark.parametrize(("days", "most"), [(1, 1), (12, 12), (90, 12), (365, 12)])
def test_dates_below_the_bars_are_no_more_than_there_is_room_for_and_the_last_is_one_of_them(
    days: int, most: int
) -> None:
    chart = day_chart(bars(days))
    dates = re.findall(r">(\d\d \w{3})<", chart)
    assert 1 <= len(dates) <= most
    assert dates[-1] == f"{MONDAY + timedelta(days=days - 1):%d %b}"


def test_days_without_a_row_and_no_days_at_all_are_drawn() -> None:
    assert heights(day_chart(bars(2, 0)), "whole") == [0.0, 0.0]
    assert f"0 0 {WIDE:g}" in day_chart([])
