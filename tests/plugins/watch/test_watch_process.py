"""The line between the scheduler and the watch: one process for many looks, another when it dies, none left alone."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ratchet_airflow.watch.watch_process import Watcher
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
WATCH = """
import os, sys
from pathlib import Path
from ratchet_airflow.watch.watch_process import answer
looks = Path(sys.argv[1])

def look():
    with looks.open("a") as file:
        print(os.getpid(), file=file)
    word = Path(sys.argv[2]).read_text()
    if word == "die":
        raise SystemExit("a bug")
    return word == "goes on"

answer(look)
"""
ASKER = """
import os, sys, time
from ratchet_airflow.watch.watch_process import Watcher
watcher = Watcher(os.environ, sys.argv[1:])
watcher.look()
if os.fork() == 0:
    time.sleep(30)
    os._exit(0)
print("asked", flush=True)
time.sleep(30)
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}"}


class Watched:
    """A watcher whose looks are written down, and which finds what it is told."""

    def __init__(self, folder: Path) -> None:
        self._looks, self._word = folder / "looks", folder / "word"
        self.command = [sys.executable, "-c", WATCH, str(self._looks), str(self._word)]
        self.watcher = Watcher(ENVIRONMENT, self.command)

    def finds(self, word: str) -> None:
        self._word.write_text(word)

    @property
    def looks(self) -> list[int]:
        """The process of each look."""
        return [int(line) for line in self._looks.read_text().splitlines()]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_one_process_looks_as_often_as_it_is_asked_and_goes_when_it_is_let_go(watched: Watched) -> None:
    found = []
    for word in ("goes on", "rests", "goes on"):
        watched.finds(word)
        found.append(watched.watcher.look())
    assert found == [True, False, True]
    first, *others = watched.looks
    assert others == [first, first]
    watched.watcher.end()
    assert not psutil.pid_exists(first)
    watched.watcher.end()  # nothing is there to end


def test_one_that_died_is_started_again(watched: Watched) -> None:
    watched.finds("die")
    with pytest.raises(ConnectionError, match="before it had answered"):
        watched.watcher.look()
    watched.finds("goes on")
    assert watched.watcher.look()
    killed = psutil.Process(watched.looks[-1])
    killed.kill()
    until(lambda: killed.status() == psutil.STATUS_ZOMBIE)
    assert watched.watcher.look()
    assert len(set(watched.looks)) == 3
    watched.watcher.end()


def test_none_is_left_when_who_asks_is_killed_although_a_fork_of_it_holds_the_line(watched: Watched) -> None:
    watched.finds("goes on")
    command = [sys.executable, "-W", "ignore", "-c", ASKER, *watched.command]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None
        assert asker.stdout.readline() == "asked\n"
        forked = [child for child in psutil.Process(asker.pid).children() if child.pid not in watched.looks]
        os.kill(asker.pid, signal.SIGKILL)
        until(lambda: not psutil.pid_exists(watched.looks[0]))
        for child in forked:
            child.kill()
