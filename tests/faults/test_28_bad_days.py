"""Row 28: the data date is missing, empty, delivered twice, cut to a part, or a copy of the day before."""

from datetime import timedelta

import pyarrow as pa
import pytest

from tests.evaluate.nights import Nights, rows
from tests.faults.bad_nights import NEXT, Change, failures, nights, office, recovers, refused, source_file, spoil

__all__ = ["nights", "office"]


def test_a_missing_day_stops_the_night_and_is_read_when_it_comes(nights: Nights) -> None:
    source_file(nights).unlink()
    assert f"{NEXT}: the source has no files for the data date" in refused(nights).cause
    recovers(nights)


def test_an_empty_day_stops_the_night(nights: Nights) -> None:
    spoil(nights, lambda table: table.slice(0, 0))
    assert f"{NEXT}" in (error := refused(nights)).cause
    assert "no rows" in error.cause or "0 rows" in error.cause, error.cause
    recovers(nights)


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        pytest.param(lambda table: pa.concat_tables([table, table]), {"volume", "repeats"}, id="twice"),
        pytest.param(lambda table: table.slice(0, 60), {"volume"}, id="cut"),
        pytest.param(lambda _: rows(NEXT - timedelta(days=1)), {"duplicate"}, id="yesterday"),
    ],
)
def test_a_day_with_other_rows_than_its_own_stops_the_night_by_rule(
    nights: Nights, change: Change, rules: set[str]
) -> None:
    spoil(nights, change)
    cause = refused(nights).cause
    assert {check.rule for check in failures(nights)} == rules, cause
    assert all(rule in cause for rule in rules)
