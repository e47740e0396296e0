"""What `ratchet check` says of the training that a pipeline's file describes."""

from pathlib import Path
from typing import Any

import pytest

from ratchet.cli.training_reads import training_reads
from ratchet.contracts.loading import load

RANKING = Path(__file__).resolve().parents[1] / "contracts" / "ranking.yaml"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source.window_days": 3}, "training reads 1 of 3 days (1 held out, 1 for validation), 2 numeric"),
        ({"train.valid_days": 0}, "training reads 29 of 30 days (1 held out, 0 for validation), 2 numeric"),
        ({"evaluate.holdout_days": 5}, "training reads 24 of 30 days (5 held out, 1 for validation), 2 numeric"),
        ({"train.batch_size": 1000}, "an epoch has about 10 steps for 10,000 rows, 1,000 steps for 1,000,000 rows; "),
        ({"train.batch_size": 20_000}, "an epoch has about 1 step for 10,000 rows, 50 steps for 1,000,000 rows; "),
        (
            {"train.epochs": 1},
            "an epoch has about 40 steps for 10,000 rows, 245 steps for 1,000,000 rows; at most 1 epoch",
        ),
    ],
)
def test_days_columns_and_steps_follow_the_file(changes: dict[str, Any], said: str) -> None:
    assert [line for line in training_reads(load(RANKING, changes)) if line.startswith(said)] != []
