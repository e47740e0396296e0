"""A trainer that is killed at random steps, fifty times in a row, ends with the bits of one that is not; with two ranks,
one of which is killed each time, too."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 50


@pytest.mark.heavy
@pytest.mark.parametrize(("seed", "ranks"), [(0, 1), (1, 1), (2, 2)])
def test_fifty_kills_at_random_steps_in_a_row_change_no_bit(seed: int, ranks: int, tmp_path: Path) -> None:
    numbers = map(str, (KILLS, seed, ranks))
    command = [sys.executable, "-m", "tests.faults.miniature_training", str(tmp_path), *numbers]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(ended.stdout)
    assert found["killed"] == KILLS
    assert found["steps"] > KILLS
    assert found["survived"] == found["digest"]
