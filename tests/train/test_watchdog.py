"""What counts as hung: no rank gets on, from its start to the end of the loop."""

import subprocess
import sys
from pathlib import Path

import pytest

from tasks.train import heartbeat, watchdog
from tasks.train.heartbeat import Heartbeat
from tasks.train.watchdog import Watchdog, stacks_of
from tests.waiting import until

LIMIT_S = 1


def hangs(dog: Watchdog, file: Path) -> bool:
    """Whether it is seen within a few limits."""
    try:
        return until(lambda: dog.is_hung(heartbeat.read(file)) or None, seconds=3 * LIMIT_S)
    except AssertionError:
        return False


def test_a_training_is_watched_from_its_first_step_to_the_end_of_its_loop(tmp_path: Path) -> None:
    file = tmp_path / "beats"
    heartbeat.create(file, 2)
    first, second = Heartbeat(file, 0), Heartbeat(file, 1)
    dog = Watchdog(LIMIT_S)
    assert not hangs(dog, file)
    first.step(7)
    second.beat()
    assert hangs(dog, file)
    with first.waiting():
        assert "rank 1 of 2 did not get on for 1s after step 7" in dog.error(heartbeat.read(file)).cause
    second.beat()
    assert not dog.is_hung(heartbeat.read(file))
    for each in (first, second):
        each.end()
    assert not hangs(dog, file)


def test_before_the_first_step_a_rank_has_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "beats"
    heartbeat.create(file, 2)
    monkeypatch.setattr(watchdog, "START_S", 6)
    dog = Watchdog(LIMIT_S)
    assert not hangs(dog, file)
    Heartbeat(file, 1).start()
    assert not hangs(dog, file)
    assert hangs(dog, file) or hangs(dog, file)
    with Heartbeat(file, 1).waiting():
        assert "rank 0 of 2 did not get on for 6s before its first step" in dog.error(heartbeat.read(file)).cause


def test_processes_that_run_dump_their_stacks(tmp_path: Path) -> None:
    file = tmp_path / "stacks"
    program = f"import faulthandler, signal, time; faulthandler.register(signal.SIGUSR1, open({str(file)!r}, 'w')); print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        assert "line 1 in <module>" in stacks_of({3: process.pid}, lambda _: file.read_text(encoding="utf-8"))[3]
        process.kill()
