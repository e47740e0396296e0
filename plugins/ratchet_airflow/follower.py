"""`python -m ratchet_airflow.follower`: the follower, a server beside an engine that the triggerer does not reach.

It follows the containers that tasks of its host have left to it (RATCHET_FOLLOWER=host), with a worker's keys of the
store and of MLflow; it has neither Airflow's database nor its server. It runs until SIGTERM. Killed at any time it
loses nothing: the next one goes on with the same containers. See docs/adr/081.

A change here violates the promise of the project when a follower that hangs counts as well.
"""

import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from ratchet.contracts.errors import RatchetError
from ratchet.contracts.masking import masked_logger
from ratchet.runners.choice import await_engine
from ratchet.runners.docker import DockerRunner
from ratchet.runs.host_follower import HostFollower
from ratchet.runs.left_elsewhere import LOOK_S
from ratchet.store.opening import open_store
from ratchet_airflow import settings
from ratchet_airflow.leaving import served
from ratchet_airflow.run_id import installation
from ratchet_airflow.servers import alive_file, log_to_stderr, stop_on_signal

_LIMIT_S = 300
"""A look that takes longer hangs: the process ends, and what supervises it starts it again."""
_STOP_S = 15.0
_log = masked_logger("ratchet.follower")


def main() -> int:
    """Follow until SIGTERM."""
    log_to_stderr()
    stop = stop_on_signal()
    try:
        store = open_store(settings.read().store)
        await_engine(0)
        follower = HostFollower(store, DockerRunner(), installation())
    except RatchetError as error:
        sys.stderr.write(f"follower: {error}\n")
        return int(error.code)
    with _alone(stop):
        _serve(follower, served(store.uri, installation(), follower.engine), stop)
    return 0


@contextmanager
def _alone(stop: Event) -> Iterator[None]:
    """Begins once no other follower is on this host: two would take the leases from each other without end."""
    with alive_file("follower").with_name("follower.lock").open("w") as file:
        waits = False
        while not stop.is_set():
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waits:
                    _log.warning("another follower is on this host; this one waits until that has ended")
                waits = True
                stop.wait(LOOK_S)
        yield


def _serve(follower: HostFollower, said: str, stop: Event) -> None:
    """said: what it follows, for the tasks of this host."""
    if not stop.is_set():
        _log.info("the follower follows what tasks of this host leave to it, in %s", said.splitlines()[0])
    failing, looks = "", 0
    while not stop.is_set():
        signal.alarm(_LIMIT_S)
        try:
            await_engine(0)
            follower.look()
            looks += 1
            if looks > 1:  # the first one only begins: one that then fails is not well, however often
                _say(said)
            if failing:
                _log.info("the follower goes on: what was away answers again")
            failing = ""
        except (RatchetError, OSError) as error:  # OSError: its file, without which no task leaves it anything
            cause = error.cause if isinstance(error, RatchetError) else str(error)
            if failing != cause:
                _log.warning("the follower cannot follow what was left, and tries again: %s", error)
            failing = cause
        stop.wait(LOOK_S)
    signal.alarm(0)
    follower.stop(_STOP_S)


def _say(what: str) -> None:
    """That it lives, and what it follows. A task sees the whole text, or the one before."""
    file = alive_file("follower")
    new = file.with_name(f"{file.name}.new")
    new.write_text(what, encoding="utf-8")
    new.replace(file)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a thread may still wait for the engine
