import re
from datetime import date

import numpy as np
import pytest

from ratchet.contracts.summaries import Validation
from tasks.validate import charts, grid
from tasks.validate.profile import ColumnProfile


def numbers(values: list[float]) -> ColumnProfile:
    return ColumnProfile(rows=len(values), histogram=grid.count(np.array(values)))


def ends(picture: str) -> list[float]:
    """The numbers below a distribution."""
    return [float(text.replace(",", "")) for text in re.findall(r">([\d.,]+)</text>", picture)]


def bars(picture: str) -> list[float]:
    """Heights of the data date's bars."""
    return [float(height) for height in re.findall(r'class="part"[^>]* height="([\d.]+)"', picture)]


def test_a_day_that_has_moved_out_of_the_reference_is_drawn_where_it_is() -> None:
    reference, today = numbers([1.0 + i / 100 for i in range(100)]), numbers([11.0 + i / 100 for i in range(100)])
    picture = charts.column(today, reference)
    low, high = ends(picture)
    assert low <= 1.0
    assert high >= 12.0
    assert max(bars(picture)) > 50
    assert '<polyline class="reference"' in picture


def test_values_that_span_far_are_drawn_on_a_logarithmic_scale() -> None:
    values = [10.0 ** (i / 100) for i in range(400)]
    heights = bars(charts.column(numbers(values), ColumnProfile()))
    assert min(heights) > 0.5 * max(heights)


def test_values_of_a_category_say_both_shares() -> None:
    today = ColumnProfile(rows=4, values={"DE": 3, "US": 1})
    reference = ColumnProfile(rows=8, values={"DE": 4, "US": 4})
    assert "DE: 75 % of the day, 50 % of the reference" in charts.column(today, reference)


def test_a_column_without_numbers_and_values_has_no_picture() -> None:
    assert charts.column(ColumnProfile(), ColumnProfile()) == ""


def test_no_index_is_written_across_the_limit() -> None:
    picture = charts.drift({"price": 6.3, "rating": 0.01, "country": 0.3}, 0.2)
    limit = float(re.findall(r'class="limit" x1="([\d.]+)"', picture)[0])
    places = [float(x) for x in re.findall(r'x="([\d.]+)" y="[\d.]+" text-anchor="start"', picture)]
    assert len(places) == 3
    assert not [x for x in places if x < limit < x + 40]


@pytest.mark.parametrize(("share", "kind"), [(0.01, "part"), (0.2, "bad")])
def test_a_share_of_missing_rows_far_above_the_reference_is_marked(share: float, kind: str) -> None:
    assert f'class="{kind}"' in charts.missing(share, 0.0)


def test_a_day_of_the_volume_says_its_rows_its_labels_and_what_it_is() -> None:
    today, before = date(2026, 3, 20), date(2026, 3, 19)
    validation = Validation(
        checks=(), excluded=(before,), rows={today: 1000, before: 900}, labelled={today: 990, before: 1}
    )
    picture = charts.volume(today, validation)
    assert "Fri 2026-03-20: 1,000 rows, 990 with a label (today)" in picture
    assert "Thu 2026-03-19: 900 rows, 1 with a label (excluded)" in picture
    assert 'class="day today"' in picture
