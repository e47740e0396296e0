"""What Airflow's scheduler tells Ratchet of: that it starts, and that a run has ended.

Airflow 3.3 calls these hooks where the event is noticed. Run events come from the scheduler, in the middle of its loop
and before the state is committed; so nothing happens here but a note to a thread, and the thread starts the watch as a
process of its own, one at a time, with a time limit.
"""

import logging
import os
import subprocess
import sys
import threading

from airflow.listeners import hookimpl

from ratchet_airflow.pools import keep_in_step

_EVERY_S = 120.0
"""Between two looks when nothing happens. RATCHET_WATCH_SECONDS is another number."""
_LIMIT_S = 120.0
_SETTLE_S = 1.0
"""Until the scheduler has committed what it told of, and for the events of one moment to become one look."""
_log = logging.getLogger("ratchet.alerts")
_noted = threading.Event()


@hookimpl
def on_starting(component: object) -> None:
    """A scheduler makes the pools, and begins to watch. A task's process, forked from it, has another component."""
    if type(component).__name__ == "Job" and sys.argv[1:2] == ["scheduler"]:
        keep_in_step()
        threading.Thread(target=_watch, name="ratchet-watch", daemon=True).start()


@hookimpl
def on_dag_run_failed(dag_run: object, msg: str) -> None:  # noqa: ARG001 - Airflow's signature
    """Tasks may have failed without a word."""
    _noted.set()


@hookimpl
def on_dag_run_success(dag_run: object, msg: str) -> None:  # noqa: ARG001 - Airflow's signature
    """The last run of a backfill may have ended."""
    if getattr(dag_run, "backfill_id", None) is not None:
        _noted.set()


def _watch() -> None:
    every = float(os.environ.get("RATCHET_WATCH_SECONDS", _EVERY_S))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "_AIRFLOW_PROCESS_CONTEXT": "server",  # it reads Airflow's database, as the scheduler does
    }
    pause = threading.Event()
    while True:
        if _noted.wait(every):
            pause.wait(_SETTLE_S)
        _noted.clear()
        command = [sys.executable, "-m", "ratchet_airflow.alerts.watch"]
        try:
            ended = subprocess.run(  # noqa: S603 - this Python, and a module of ours
                command, env=environment, timeout=_LIMIT_S, start_new_session=True, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            _log.warning("the watch for alerts did not end well: %s", error)
        else:
            if ended.returncode != 0:
                _log.warning("the watch for alerts ended with exit code %d", ended.returncode)
