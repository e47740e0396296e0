"""The watch as a process: one for many scans, another after its death, none left without its scheduler."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ratchet_airflow.watch.watch_process import WatchProcess
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
WATCH = """
import os, sys
from pathlib import Path
from ratchet_airflow.watch.watch_process import serve
scans = Path(sys.argv[1])

def scan():
    with scans.open("a") as file:
        print(os.getpid(), file=file)
    word = Path(sys.argv[2]).read_text()
    if word == "die":
        raise SystemExit("a bug")
    return word == "active"

serve(scan)
"""
SCHEDULER = """
import os, sys, time
from ratchet_airflow.watch.watch_process import WatchProcess
watch = WatchProcess(os.environ, sys.argv[1:])
watch.scan()
if os.fork() == 0:
    time.sleep(30)
    os._exit(0)
print("asked", flush=True)
time.sleep(30)
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}"}


class RecordingWatch:
    """A watch that records its scans, and that finds what a test sets."""

    def __init__(self, folder: Path) -> None:
        self._scans, self._word = folder / "scans", folder / "word"
        self.command = [sys.executable, "-c", WATCH, str(self._scans), str(self._word)]
        self.watch = WatchProcess(ENVIRONMENT, self.command)

    def finds(self, word: str) -> None:
        self._word.write_text(word)

    @property
    def scans(self) -> list[int]:
        """The process of each scan."""
        return [int(line) for line in self._scans.read_text().splitlines()]


@pytest.fixture
def watched(tmp_path: Path) -> RecordingWatch:
    return RecordingWatch(tmp_path)


def test_one_process_scans_as_often_as_it_is_asked_and_is_gone_after_end(watched: RecordingWatch) -> None:
    found = []
    for word in ("active", "idle", "active"):
        watched.finds(word)
        found.append(watched.watch.scan())
    assert found == [True, False, True]
    first, *others = watched.scans
    assert others == [first, first]
    watched.watch.end()
    assert not psutil.pid_exists(first)
    watched.watch.end()  # nothing is there to end


def test_one_that_died_is_started_again(watched: RecordingWatch) -> None:
    watched.finds("die")
    with pytest.raises(ConnectionError, match="before it answered"):
        watched.watch.scan()
    watched.finds("active")
    assert watched.watch.scan()
    killed = psutil.Process(watched.scans[-1])
    killed.kill()
    until(lambda: killed.status() == psutil.STATUS_ZOMBIE)
    assert watched.watch.scan()
    assert len(set(watched.scans)) == 3
    watched.watch.end()


def test_none_is_left_when_the_scheduler_is_killed_although_a_fork_of_it_holds_the_socket(
    watched: RecordingWatch,
) -> None:
    watched.finds("active")
    command = [sys.executable, "-W", "ignore", "-c", SCHEDULER, *watched.command]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as scheduler:
        assert scheduler.stdout is not None
        assert scheduler.stdout.readline() == "asked\n"
        forked = [child for child in psutil.Process(scheduler.pid).children() if child.pid not in watched.scans]
        os.kill(scheduler.pid, signal.SIGKILL)
        until(lambda: not psutil.pid_exists(watched.scans[0]))
        for child in forked:
            child.kill()
