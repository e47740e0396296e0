from datetime import UTC, datetime
from typing import get_args

import pytest

from ratchet.contracts.reproduction import Likeness, Reproduction


@pytest.mark.parametrize(
    ("likeness", "code"), [("bit-equal", 0), ("within-tolerance", 1), ("diverged", 3), ("not-rebuilt", 66)]
)
def test_each_likeness_has_its_exit_code(likeness: Likeness, code: int) -> None:
    found = Reproduction(
        model="m",
        version="7",
        run_id="r",
        likeness=likeness,
        tolerance=0.001,
        started_by="ann",
        finished=datetime(2026, 11, 25, tzinfo=UTC),
    )
    assert found.code == code
    assert likeness in get_args(Likeness)
