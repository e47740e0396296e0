"""A reader that leaves, as `head` does, gets no traceback from any verb."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ratchet.cli.pipes import LEFT
from tests.cli.test_nights import DAY, store

ROOT = Path(__file__).resolve().parents[2]
__all__ = ["store"]
UNTIL = f"{DAY}"


def without_reader(*arguments: str, code: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run a verb, or a program, whose standard output has no reader any more when it begins."""
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, *(("-c", code) if code else ("-m", "ratchet.cli.main")), *arguments]
    try:
        return subprocess.run(command, cwd=ROOT, stdout=theirs, stderr=subprocess.PIPE, timeout=120, check=False)
    finally:
        os.close(theirs)


@pytest.mark.parametrize(
    "arguments",
    [
        ("nights", "search-ranking"),
        ("nights", "search-ranking", "--json"),
        ("why", "search-ranking/r1"),
        ("plan", "search-ranking", "--date", UNTIL, "--set", "source.window_days=3"),
        ("check", "search-ranking", "--explain"),
        ("schema", "--markdown"),
    ],
    ids=" ".join,
)
def test_a_verb_ends_quietly_without_a_reader(arguments: tuple[str, ...], store: str) -> None:
    placed = ("--store", store) if arguments[0] in {"nights", "why", "plan"} else ()
    ended = without_reader(*arguments, *placed)
    assert (ended.returncode, ended.stderr) == (LEFT, b"")


def test_help_ends_quietly_without_a_reader() -> None:
    ended = without_reader("run", "--help")
    assert ended.returncode in {0, LEFT}
    assert ended.stderr == b""


def test_a_sample_is_whole_though_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    ended = without_reader("sample", "clicks", "--out", str(tmp_path / "data"), "--days", "2", "--rows-per-day", "20")
    assert (ended.returncode, ended.stderr) == (LEFT, b"")
    assert len([path for path in (tmp_path / "data").rglob("*") if path.is_file()]) == 2


def test_another_broken_pipe_is_still_an_error() -> None:
    code = "from ratchet.cli.pipes import reader_may_leave\nwith reader_may_leave():\n    raise BrokenPipeError('the engine')"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert b"BrokenPipeError: the engine" in ended.stderr
