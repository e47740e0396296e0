"""A run in Weights & Biases that a training fills while it runs; a process of its own writes it.

A change here violates the promise of the project when a training waits for Weights & Biases, or fails because of it.
"""

import json
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from ratchet.contracts.errors import Unavailable
from ratchet.contracts.fingerprint import digest
from ratchet.tracking.live_run import Point

_ANSWER_S = 60.0
_AGAIN_S = 60.0
"""Seconds until a process that failed is followed by another: each takes seconds of a core."""


class WandbRun:
    """The run of one training, which is created when it is first written to; the next try goes on with it.

    Every call raises Unavailable where the library or its server refuses the values.
    """

    def __init__(self, *, project: str, training: str) -> None:
        """training: what the run is named and found by, such as `<run id> train`."""
        self._settings = {"project": project, "name": training, "id": digest(f"{project}/{training}".encode())[:16]}
        self._process: subprocess.Popen[str] | None = None
        self._failure = ""
        self._failed_at = 0.0

    def write(self, points: Sequence[Point]) -> None:
        """Write values: those of one line in one row."""
        rows = dict[tuple[int, int], dict[str, float]]()
        for point in points:
            row = rows.setdefault((point.milliseconds, point.step), {"step": point.step})
            row |= {"_timestamp": point.milliseconds / 1000, point.name: point.value}
        self._ask({"rows": list(rows.values())})

    def finish(self, *, done: bool) -> None:
        """End the run. One that another process has left is ended even if this process ends before the library has."""
        last = {"exit_code": 0 if done else 1}
        if self._process is None and not self._failure:
            process = self._start(subprocess.DEVNULL)
            process.communicate("".join(f"{json.dumps(each)}\n" for each in ({"settings": self._settings}, last)))
            return
        self._ask(last)
        self.leave()

    def leave(self) -> None:
        """End the process, which writes what it has. Another one may go on with the run."""
        if self._process is not None:
            self._process.communicate(timeout=_ANSWER_S)

    def _ask(self, request: dict[str, Any]) -> None:
        if self._process is None:
            self._begin()
        self._exchange(request)

    def _begin(self) -> None:
        if self._failure and time.monotonic() < self._failed_at + _AGAIN_S:
            raise Unavailable(self._failure)
        self._process = self._start(subprocess.PIPE)
        self._exchange({"settings": self._settings})

    @staticmethod
    def _start(answers: int) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "ratchet.tracking.wandb_process"],
            stdin=subprocess.PIPE,
            stdout=answers,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # a signal for the training is not for it
        )

    def _exchange(self, request: dict[str, Any]) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{json.dumps(request)}\n")
            process.stdin.flush()
            answers = select.poll()  # `select.select` takes no file whose number is above 1023
            answers.register(process.stdout, select.POLLIN)
            ready = answers.poll(_ANSWER_S * 1000)
            answer = json.loads(process.stdout.readline() or '{"error": "its process has ended"}') if ready else None
        except OSError:
            answer = {"error": "its process has ended"}
        if answer is None or "error" in answer:
            self._failure = f"Weights & Biases: {'no answer' if answer is None else answer['error']}"
            self._failed_at, self._process = time.monotonic(), None
            process.kill()
            process.communicate()
            raise Unavailable(self._failure)
