"""SIGKILL at every system call of an act that changes a file, by strace; see test_04."""

import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.faults.acts import BEGIN, CHECK

ROOT = Path(__file__).parents[2]
STRACE = shutil.which("strace")
needs_strace = pytest.mark.skipif(STRACE is None, reason="strace is not installed")
"""CI has it: scripts/test.sh installs it, and CI fails where it cannot."""
CHANGING = re.compile(
    r"^(open|openat|creat|write|pwrite64|writev|sendfile|copy_file_range|fsync|fdatasync|sync_file_range|link|linkat"
    r"|unlink|unlinkat|rename|renameat|renameat2|mkdir|mkdirat|rmdir|chmod|fchmod|chown|fchown|fchownat|lchown|flock"
    r"|utimensat|ftruncate|truncate)$"
)
CALL = re.compile(r"^(\d+)\s+(\w+)\(")


class Zygote:
    """Runs acts in children that a tracer was attached to before they began."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self._folder = folder

    def run(self, act: str, folder: Path, *options: str) -> tuple[int, str]:
        """Wait status of the child, and the tracer's log."""
        pid = int(self._ask(f"{act} {folder}"))
        log = self._folder / "strace.log"
        command = [STRACE or "strace", "-f", "-o", str(log), *options, "-p", str(pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            line = tracer.stderr.readline()
            assert f"Process {pid} attached" in line, line + tracer.stderr.read()
            status = int(self._ask("go"))
            tracer.stderr.read()
        return status, log.read_text()

    def _ask(self, line: str) -> str:
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        _send(asked, line)
        return answers.readline()


def _send(stream: IO[str], line: str) -> None:
    stream.write(f"{line}\n")
    stream.flush()


@contextmanager
def started_zygote(folder: Path) -> Iterator[Zygote]:
    """A process that forks a child for each act. folder: for the tracer's logs."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.faults.zygote"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        yield Zygote(process, folder)
        process.kill()


def changing_calls(log: str) -> list[tuple[str, int]]:
    """Every call that changes a file, with its number among the calls of its name in its thread."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for match in map(CALL.match, log.splitlines()):
        if match and CHANGING.match(match[2]):
            seen[match[1], match[2]] += 1
            found.append((match[2], seen[match[1], match[2]]))
    return list(dict.fromkeys(found))


def killed_at_every_call(act: str, zygote: Zygote, tmp_path: Path) -> list[bool]:
    """Whether the act was done in the end, for a kill at each of its calls; the act's own check has passed each time."""
    whole = tmp_path / "whole"
    whole.mkdir()
    BEGIN[act](whole)
    status, log = zygote.run(act, whole)
    assert status == 0
    calls = changing_calls(log)
    assert {"fsync"} < {name for name, _ in calls}
    states = []
    for name, number in calls:
        folder = tmp_path / f"{name}-{number}"
        folder.mkdir()
        BEGIN[act](folder)
        status, log = zygote.run(act, folder, "-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}")
        assert status == signal.SIGKILL, f"{name} {number} was not reached:\n{log}"
        states.append(CHECK[act](folder))
        shutil.rmtree(folder)
    assert CHECK[act](whole)
    return states
