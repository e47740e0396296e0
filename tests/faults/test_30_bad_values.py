"""Row 30: a feature drifts, the labels are all the same, or a feature gives the label away."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.evaluate.nights import Nights
from tests.faults.bad_nights import Change, failures, nights, office, recovers, refused, replaced, spoil

__all__ = ["nights", "office"]


@pytest.mark.parametrize(
    ("change", "rule", "column"),
    [
        pytest.param(replaced("price", lambda table: pc.multiply(table["price"], 100)), "drift", "price", id="drift"),
        pytest.param(replaced("grade", lambda table: pa.array([0] * table.num_rows)), "label", "grade", id="zeroed"),
        pytest.param(replaced("weight", lambda table: table["grade"].cast("float64")), "leak", "weight", id="leak"),
    ],
)
def test_it_stops_the_night_by_rule_and_column(nights: Nights, change: Change, rule: str, column: str) -> None:
    spoil(nights, change)
    cause = refused(nights).cause
    found = {(check.rule, check.column) for check in failures(nights)}
    assert any(rule in name and column == of for name, of in found), found
    assert column in cause
    recovers(nights)
