from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.contracts import dates
from ratchet.contracts.errors import DataRejected
from ratchet.contracts.pipeline import PipelineSpec
from tasks.features.split import split
from tests.world import SPEC

LAST = date(2026, 11, 20)


def spec(window: int = 6, holdout: int = 1, valid: int = 1) -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            **SPEC,
            "source": {"kind": "files", "uri": "x/{date}", "window_days": window},
            "train": {"objective": "binary", "valid_days": valid},
            "evaluate": {"holdout_days": holdout},
        }
    )


@given(st.sets(st.integers(0, 9)), st.integers(1, 3), st.integers(0, 2))
def test_no_day_has_two_uses_and_the_holdout_is_newest(back: set[int], holdout: int, valid: int) -> None:
    available = [LAST - timedelta(days=days) for days in back]
    try:
        found = split(spec(10, holdout, valid), LAST, available)
    except DataRejected:
        assert len([days for days in back if days >= holdout]) <= valid or not [days for days in back if days < holdout]
        return
    assert sorted(available) == [*found.train, *found.valid, *found.holdout]
    assert len(found.valid) == valid
    assert found.train
    assert set(found.holdout) <= set(dates.window(LAST, holdout))


def test_too_few_days_are_reported_with_their_number() -> None:
    with pytest.raises(DataRejected, match=r"of the window's 6 days 2 can be used.*no day left to train on"):
        split(spec(), LAST, [LAST, LAST - timedelta(days=1)])
    with pytest.raises(DataRejected, match="no day to hold out"):
        split(spec(), LAST, [LAST - timedelta(days=4), LAST - timedelta(days=3)])
