"""`python -m ratchet_airflow.watch`: the watch, a small server beside Airflow that runs until SIGTERM.

It needs Airflow's server (RATCHET_AIRFLOW_API), the store and the pipelines, and no database. Killed at any time it
loses nothing: what it has to know is in the store and in Airflow, and its first scan looks at a whole day, or
at all the time since the last one.

A change here violates the promise of the project when a watch that hangs goes on for ever, or when one that cannot read
Airflow ends or falls silent.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from threading import Event

from ratchet.contracts.environment import environment
from ratchet.contracts.errors import RatchetError
from ratchet.contracts.masking import masked_logger
from ratchet_airflow.alerts import delivery
from ratchet_airflow.servers import alive_file, log_to_stderr, stop_on_signal
from ratchet_airflow.watch.airflow_server import AirflowServer, named_server
from ratchet_airflow.watch.guard import Guard
from ratchet_airflow.watch.heartbeat import EVERY_S
from ratchet_airflow.watch.look import ended_runs
from ratchet_airflow.watch.scan import Scanner

_POLL_S = 5.0
"""How often it asks whether a run has failed, or one of a backfill has ended."""
_LIMIT_S = 300
"""A round that takes longer hangs: the process ends, and what supervises it starts it again."""
_log = masked_logger("ratchet.alerts")


def main() -> int:
    """Watch until SIGTERM."""
    log_to_stderr()
    here = environment()
    try:
        server = named_server("watch")
        every = min(here.watch_seconds, EVERY_S) if here.heartbeat_url else here.watch_seconds
    except RatchetError as error:
        sys.stderr.write(f"watch: {error}\n")
        return int(error.code)
    stop = stop_on_signal()
    os.nice(10)  # the runs come first
    delivery.ask_airflow(server.receiver)
    _log.info("the watch looks at %s every %g s, and when a run fails", server.url, every)
    _watch(server, every, stop)
    return 0


def _watch(server: AirflowServer, every: float, stop: Event) -> None:
    scanner, next_scan = Scanner(server), 0.0
    known: frozenset[tuple[str, str, str]] | None = frozenset()
    while not stop.is_set():
        signal.alarm(_LIMIT_S)
        before, known = known, _ended(server)
        is_news = known is not None and (before is None or not known <= before)
        if is_news or time.monotonic() >= next_scan:
            with Guard("the watch for alerts failed"):
                scanner.scan()
            is_away = delivery.spool().is_of_the_watch()  # the next look says so, if it finds the same
            next_scan = time.monotonic() + (min(every, EVERY_S) if is_away else every)
        with suppress(OSError):
            alive_file("watch").touch()
        stop.wait(_POLL_S)


def _ended(server: AirflowServer) -> frozenset[tuple[str, str, str]] | None:
    """The runs that ended a moment ago; None while Airflow's server does not answer, which the scan says."""
    try:
        return ended_runs(server)
    except RatchetError:
        return None


if __name__ == "__main__":
    sys.exit(main())
