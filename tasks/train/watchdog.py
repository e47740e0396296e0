"""Whether the ranks of a training get on, and the stacks of those that do not."""

import faulthandler
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import NoReturn

from ratchet.contracts.errors import Preempted
from ratchet.contracts.quantities import show_duration
from ratchet.runtime.logs import StageLog
from tasks.train.heartbeat import Heartbeat, Sign

_LOOK_S = 0.1
_LOOKS = 20
"""In the time after which a training counts as hung."""
START_S = 1800
"""The longest time without a sign before the first step, if `limit` is not longer: a module of a pipeline may load
much, and a day of rows is verified before its first block is read."""


class Watchdog:
    """Notices that no rank has got on for `limit` seconds, to the end of the loop; START_S or more before any step."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._beats: list[tuple[int, int]] = []
        self._since = time.monotonic()

    def is_hung(self, signs: Sequence[Sign]) -> bool:
        """Look at the ranks' last signs."""
        beats = [(sign.starts, sign.beats) for sign in signs if not sign.over]
        if beats != self._beats:
            self._beats, self._since = beats, time.monotonic()
        return bool(beats) and time.monotonic() - self._since > self._allowed(signs)

    def _allowed(self, signs: Sequence[Sign]) -> int:
        """The seconds without a sign."""
        return self._limit if any(sign.beats for sign in signs) else max(self._limit, START_S)

    def error(self, signs: Sequence[Sign]) -> Preempted:
        """What it is for the one who retries. Those that wait for others are not to blame."""
        held = [rank for rank, sign in enumerate(signs) if not (sign.waiting or sign.over)] or list(range(len(signs)))
        named = f"rank {', '.join(map(str, held))} of {len(signs)}" if len(signs) > 1 else "training"
        return Preempted(
            f"{named} did not get on for {show_duration(self._allowed(signs))} {_when(signs)};"
            " the stacks are in the log, and training goes on from its newest checkpoint",
            remedy="look in the stacks for what it waited for; raise train.watchdog if it was at work",
        )


def _when(signs: Sequence[Sign]) -> str:
    if not any(sign.beats for sign in signs):
        return "before its first step"
    return f"after step {max(sign.step for sign in signs):,}"


def log_stacks(log: StageLog, rank: int, stacks: str) -> None:
    """Write the stacks of a rank to the log."""
    log.event("stacks", f"the stacks of rank {rank}:\n{stacks}", level="error", rank=rank)


@contextmanager
def watch_itself(heartbeat: Heartbeat, limit: int, log: StageLog) -> Iterator[None]:
    """Watch the only process of a training from a thread of its own. It ends the process."""
    ended = Event()
    dog = Watchdog(limit)

    def watch() -> None:
        while not ended.wait(limit / _LOOKS):
            if dog.is_hung([heartbeat.sign]):
                _end(dog.error([heartbeat.sign]), log)

    thread = Thread(target=watch, name="watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _end(error: Preempted, log: StageLog) -> NoReturn:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        log_stacks(log, 0, file.read())
    os._exit(log.failure(error))


def stacks_of(pids: Mapping[int, int], read: Callable[[int], str], *, seconds: float = 5.0) -> dict[int, str]:
    """Make running processes dump their stacks, and wait for them. pids: by rank. read: what a rank has dumped so far.

    They have called `faulthandler.register(SIGUSR1)`. One that was stopped goes on to do so.
    """
    for pid in pids.values():
        for number in (signal.SIGUSR1, signal.SIGCONT):
            os.kill(pid, number)
    end, found, before = time.monotonic() + seconds, dict.fromkeys(pids, ""), dict[int, str]()
    while time.monotonic() < end and not (all(found.values()) and found == before):  # a stack is written in pieces
        time.sleep(_LOOK_S)
        found, before = {rank: read(rank) for rank in pids}, found
    return {rank: text or "no stack within a few seconds: it is inside a system call" for rank, text in found.items()}
