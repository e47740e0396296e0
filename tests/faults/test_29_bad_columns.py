"""Row 29: a column is lost, its type changes, or a category appears that no training has seen."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ratchet.contracts.summaries import judgement
from tests.evaluate.nights import Nights, scores
from tests.faults.bad_nights import NEXT, Change, nights, office, recovers, refused, replaced, spoil

__all__ = ["nights", "office"]


@pytest.mark.parametrize(
    ("change", "column"),
    [
        pytest.param(lambda table: table.drop_columns(["price"]), "price", id="lost"),
        pytest.param(lambda table: table.rename_columns({"shop": "store"}), "shop", id="renamed"),
        pytest.param(
            replaced("price", lambda table: pc.binary_join_element_wise("EUR", table["price"].cast("string"), " ")),
            "price",
            id="text",
        ),
        pytest.param(replaced("size", lambda table: pc.add(table["size"].cast("float64"), 0.5)), "size", id="halves"),
    ],
)
def test_a_lost_column_or_another_type_stops_the_night_by_name(nights: Nights, change: Change, column: str) -> None:
    spoil(nights, change)
    assert column in refused(nights).cause
    recovers(nights)


def test_a_new_category_goes_on_as_unknown(nights: Nights) -> None:
    first = pa.array([row < 10 for row in range(400)])
    spoil(nights, replaced("shop", lambda table: pc.if_else(first, "east", table["shop"])))
    outcomes = nights.run(NEXT)
    made = outcomes["evaluate"].result
    assert made is not None
    assert judgement(made).rows == scores(nights, outcomes).num_rows == 400, "no row of it was left out"
