"""How long a task has waited for what is late, over all its looks, each of which is a process of a worker.

`ingest` waits for its source, and a stage for another run that computes the same. It is in Airflow's task state store
until the task is cleared. Of a look on the same host it counts the time until the next one by a clock that nobody sets;
of one on another host it counts the pause that was asked for.

A change here violates the promise of the project when a wait ends before its limit, such as
where the clock of a host is set.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from ratchet.store.process import Process
from ratchet_airflow.outages import LOOK_S, reschedule

SOURCE, RUN = "ratchet_late_s", "ratchet_run_s"
"""The keys of the seconds before the last pause, after max_tries, which a clear raises; then of that pause, when it
began, and where."""


class Waits:
    """Of one kind, by its key, of the task whose context this is."""

    def __init__(self, context: Mapping[str, Any], key: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._key, self._clock = context, key, clock

    def waited(self) -> float:
        """For how many seconds it has waited since it was cleared last."""
        states = self._context.get("task_state_store")
        found = states.get(self._key) if states is not None else None
        if found is None or found[0] != self._context["ti"].max_tries:
            return 0.0
        _, before_s, pause_s, began, host = found
        passed = self._clock() - began
        return float(before_s + (passed if host == _host() and host and passed >= 0 else pause_s))

    def pause(self, seconds: float) -> None:
        """Look again in some seconds, in the same try. Raises AirflowRescheduleException."""
        states = self._context.get("task_state_store")
        if states is not None:
            kept = [self._context["ti"].max_tries, self.waited(), max(seconds, LOOK_S), self._clock(), _host()]
            states.set(self._key, kept)
        reschedule(seconds)


def _host() -> str:
    here = Process.current()
    return here.host if here is not None else ""
