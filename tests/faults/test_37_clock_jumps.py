"""The wall clock of a worker and of its stages jumps by an hour and back, in the nights in which the clocks change.

A library that is loaded before all others moves what a process reads of the clock, while it runs.
"""

import json
import os
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.faults.jumping_night import NIGHTS, STAGES
from tests.faults.tiny import DAYS, write_tiny

SOURCE = Path(__file__).with_name("jumping_clock.c")
ROOT = SOURCE.parents[2]


@pytest.mark.heavy
def test_dates_durations_timeouts_and_leases_do_not_follow_the_clock(tmp_path: Path) -> None:
    library, clock = tmp_path / "jumping_clock.so", tmp_path / "clock"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    clock.write_bytes(bytes(8))
    for night in NIGHTS:
        write_tiny(tmp_path, date.fromisoformat(night))
    moved = {"LD_PRELOAD": str(library), "JUMPING_CLOCK": str(clock), "TZ": "Europe/Berlin", "PYTHONPATH": str(ROOT)}
    worker = [sys.executable, "-P", "-m", "tests.faults.jumping_night", str(tmp_path)]
    ran = subprocess.run(worker, env=os.environ | moved, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["jumps"] == len(NIGHTS) * len(STAGES) * 4 + 2 + 3  # all were seen: of stages, timeouts and leases
    for night, seen in found["nights"].items():
        last = date.fromisoformat(night)
        assert seen["days"] == [str(last - timedelta(days=back)) for back in reversed(range(DAYS))]
        assert set(seen["states"]) == {"done"}
        assert all(0 <= seconds < 280 for seconds in seen["seconds"])
    (endless, endless_s), (short, _) = found["timeouts"]
    assert (endless, short) == (True, False)
    assert 5 <= endless_s < 60
    assert found["leases"] == [True] * 5
