"""A run in Weights & Biases from a process that follows many trainings."""

import os
import resource
import subprocess
import sys

import pytest

from ratchet.tracking.live_run import Point
from ratchet.tracking.wandb_run import WandbRun

ANSWERS = "import sys\nfor _ in sys.stdin: print('{}', flush=True)"


def test_it_is_written_where_more_than_1024_files_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a triggerer that follows some hundred containers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    begun = list[subprocess.Popen[str]]()

    def start(answers: int) -> "subprocess.Popen[str]":
        begun.append(
            subprocess.Popen([sys.executable, "-c", ANSWERS], stdin=subprocess.PIPE, stdout=answers, text=True)
        )
        return begun[-1]

    monkeypatch.setattr(WandbRun, "_start", staticmethod(start))
    run, opened = WandbRun(project="p", training="t"), list[int]()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
        opened += [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
        run.write([Point(name="loss", value=1.0, milliseconds=1, step=1)])
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        run.leave()
        assert [process.poll() for process in begun] == [0]
