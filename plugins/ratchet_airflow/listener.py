"""What Airflow's scheduler tells Ratchet of: that it starts, and that a run has ended.

Airflow 3.3 calls these hooks where the event is noticed. Run events come from the scheduler, in the middle of its loop
and before the state is committed; so nothing happens here but a note to a thread, and the thread asks the watch, a
process of its own, with a time limit. While no run goes on, nothing can be late, and there is no watch.
"""

import logging
import os
import sys
import threading
from importlib import import_module

from airflow.listeners import hookimpl

from ratchet_airflow.alerts.watcher import Watcher
from ratchet_airflow.pools import keep_in_step

_EVERY_S = 300.0
"""Between two looks while a run goes on. RATCHET_WATCH_SECONDS is another number."""
_SETTLE_S = 1.0
"""Until the scheduler has committed what it told of, and for the events of one moment to become one look."""
_OF_TASKS = (
    "ratchet_airflow.dag",
    "ratchet_airflow.folders",
    "ratchet.runs.attempt",
    "ratchet.runs.stage_record",
    "ratchet.runs.planning",
    "ratchet.runners.choice",
)
"""What each task imports: 0.14 s of processor, which a process that is forked from the scheduler does not need."""
REAPER = "ratchet-reaper"
"""The DAG that is no pipeline's: nobody waits for its runs."""
_log = logging.getLogger("ratchet.alerts")
_noted = threading.Event()
_going_on = threading.Event()


@hookimpl
def on_starting(component: object) -> None:
    """A scheduler makes the pools, begins to watch, and loads what its tasks need before it forks them.

    A task's process, forked from it, has another component.
    """
    if type(component).__name__ == "Job" and sys.argv[1:2] == ["scheduler"]:
        keep_in_step()
        threading.Thread(target=_watch, name="ratchet-watch", daemon=True).start()
        load_for_tasks()  # last, since nothing else depends on it


@hookimpl
def on_dag_run_running(dag_run: object, msg: str) -> None:  # noqa: ARG001 - Airflow's signature
    """There is something that may become late."""
    if getattr(dag_run, "dag_id", None) != REAPER:
        _going_on.set()


@hookimpl
def on_dag_run_failed(dag_run: object, msg: str) -> None:  # noqa: ARG001 - Airflow's signature
    """Tasks may have failed without a word."""
    _noted.set()


@hookimpl
def on_dag_run_success(dag_run: object, msg: str) -> None:  # noqa: ARG001 - Airflow's signature
    """The last run of a backfill may have ended."""
    if getattr(dag_run, "backfill_id", None) is not None:
        _noted.set()


def load_for_tasks() -> None:
    """Load what each task would load for itself. It is not looked at for changes: what changes it restarts Airflow."""
    for module in _OF_TASKS:
        import_module(module)


def _watch() -> None:
    every = float(os.environ.get("RATCHET_WATCH_SECONDS", _EVERY_S))
    watcher = Watcher(
        {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "_AIRFLOW_PROCESS_CONTEXT": "server",  # it reads Airflow's database, as the scheduler does
        }
    )
    pause = threading.Event()
    _going_on.set()  # until the first look says otherwise
    while True:
        if _noted.wait(every):
            pause.wait(_SETTLE_S)
        elif not _going_on.is_set():
            watcher.end()
            continue
        _noted.clear()
        _going_on.clear()
        try:
            going_on = watcher.look()
        except OSError as error:
            _log.warning("the watch for alerts did not end well: %s", error)
            going_on = True
        if going_on:
            _going_on.set()
