"""`python -m ratchet_airflow.reaper`: the reaper, a small server beside each engine that runs until SIGTERM.

Every minute it ends the containers on its engine that no task of this Airflow follows any more, and frees the leases of
containers that have ended, with how they ended. It asks Airflow's server (RATCHET_AIRFLOW_API) for the states of tasks,
and has no database. It also looks whether there is a watch, whether old logs of this host are deleted and whether its
follower is there, marks how many GPUs the host has, and posts alerts that this host has kept. Killed at any time it
loses nothing. See docs/adr/077.

A change here violates the promise of the project when a container is ended because Airflow or the store's disk is away,
or when a reaper that hangs, or whose engine is away for a while, goes on for ever without a look.
"""

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from urllib.parse import quote

from ratchet.contracts import paths
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError, CorruptArtifact, OtherRelease, RatchetError, Unavailable
from ratchet.contracts.masking import masked_logger
from ratchet.runners.choice import await_engine, engine_expected
from ratchet.runners.devices import host_devices, why_silent
from ratchet.runners.docker import DockerRunner
from ratchet.runners.engine import engine_available
from ratchet.runs.history import plan_to_follow
from ratchet.runs.known_hosts import mark_host
from ratchet.runs.left_elsewhere import end_without_task
from ratchet.runs.reaping import Orphan, free_leases, orphans, reap_all
from ratchet.store.base import Store
from ratchet.store.opening import open_store
from ratchet_airflow import settings
from ratchet_airflow.alerts import delivery
from ratchet_airflow.run_id import installation, is_foreign
from ratchet_airflow.servers import alive_file, log_to_stderr
from ratchet_airflow.task_of import OVER, task_of
from ratchet_airflow.watch import presence
from ratchet_airflow.watch.airflow_server import AirflowServer, NotFound, ServerAway, as_expected, named_server
from ratchet_airflow.watch.guard import Guard
from ratchet_airflow.watch.upkeep import Upkeep

_EVERY_S = 60.0
"""Between two looks."""
_LIMIT_S = 300
"""A step of a look that takes longer hangs: the process ends, and what supervises it starts it again."""
_log = masked_logger("ratchet.reaper")


def main() -> int:
    """Look until SIGTERM."""
    log_to_stderr()
    try:
        server = named_server("reaper")
        settings.read()
    except RatchetError as error:
        sys.stderr.write(f"reaper: {error}\n")
        return int(error.code)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))  # it may be waiting for the grace of containers
    os.nice(10)  # the runs come first
    delivery.ask_airflow(server.receiver)
    _log.info("the reaper looks at the containers of this engine every %g s, and asks %s", _EVERY_S, server.url)
    reaper = Reaper(server)
    while True:
        if reaper.look():
            with suppress(OSError):
                alive_file("reaper").touch()
        time.sleep(_EVERY_S)


class Reaper:
    """Looks, and remembers between two looks what it has said of what fails."""

    def __init__(self, server: AirflowServer) -> None:
        self._server = server
        self._failing: dict[str, type[RatchetError]] = {}
        self._unreadable: set[str] = set()
        self._unknown: RatchetError | None = None
        self._over: set[str] = set()
        """Jobs left to the follower of this host whose tasks were over at the last look."""
        self._upkeep = Upkeep()

    def look(self) -> bool:
        """End the orphans of this engine, and see whether the watch and the deletion of logs go well.

        Whether nothing failed.
        """
        signal.alarm(_LIMIT_S)
        try:
            looks = (
                self._try("see whether a watch is running", _look_for_the_watch),
                self._try("look for containers that no run follows", self._reap),
                self._try("mark this host", _mark_this_host),
                self._try("see whether old logs are deleted", self._look_for_logs),
                self._try("see whether a follower is there", self._look_for_the_follower),
                self._try("post alerts that this host has kept", _post_what_waits),
            )
            return all(looks)
        finally:
            signal.alarm(0)

    def _try(self, what: str, part: Callable[[], None]) -> bool:
        """Do a part of a look. What it waits for is said once, and once when it is back."""
        why: RatchetError | None = None
        with Guard(f"the reaper cannot {what}") as guard:
            try:
                part()
            except RatchetError as error:
                why = error
        if why is not None:
            if self._failing.get(what) is not type(why):
                _log.warning("the reaper cannot %s, and asks again: %s", what, why)
            self._failing[what] = type(why)
        elif not guard.failed and self._failing.pop(what, None) is not None:
            _log.info("the reaper can %s again", what)
        return why is None and not guard.failed

    def _reap(self) -> None:
        """Raises what kept it from judging or ending one of the containers, once all others are done."""
        if engine_expected(environment().runner):
            await_engine(0)
        elif engine_available() is not None:
            return  # stages run as processes
        self._unknown = None
        store, runner = open_store(settings.read().store), DockerRunner()
        is_alive = partial(self._is_alive, store)
        for place in end_without_task(store, installation(), runner.engine, is_alive, self._over):
            _log.warning("%s: its task is over, and the follower of this host ends it", place)
        found = orphans(store, runner, is_alive)
        failed = _end(runner, found)
        signal.alarm(_LIMIT_S)
        for freed in free_leases(store, runner):
            _log.info("%s: its container has ended, and another host need not wait for it any more", freed)
        for error in filter(None, (self._unknown, failed)):
            raise error

    def _look_for_logs(self) -> None:
        self._upkeep.report_logs(lambda: DockerRunner().engine.host)

    def _look_for_the_follower(self) -> None:
        self._upkeep.report_follower(lambda: DockerRunner().engine.host)

    def _is_alive(self, store: Store, pipeline: str, run_id: str, stage: str) -> bool:
        """Whether a task may still follow a stage of a run. True where nobody says so."""
        signal.alarm(_LIMIT_S)
        if is_foreign(run_id):
            return True  # its own Airflow knows
        try:
            plan = plan_to_follow(store, pipeline, run_id)
        except (CorruptArtifact, OtherRelease) as error:
            if run_id not in self._unreadable:
                _log.warning("the container of run %s stays: %s", run_id, error)
            self._unreadable.add(run_id)
            return True
        if plan is None and next(iter(store.list(paths.runs(pipeline))), None) is None:
            self._unknown = Unavailable(
                f"the store {store.uri} has no run of {pipeline}, although a container of {run_id} is here",
                remedy="mount the store's disk; a container whose store is gone for good: `docker rm -f`",
            )
            return True
        return plan is not None and plan.origin != "" and not self._is_over(*task_of(plan, stage))

    def _is_over(self, dag: str, run: str, name: str) -> bool:
        """Whether Airflow says that a task has ended, or that it does not have it."""
        if isinstance(self._unknown, ServerAway):
            return False  # it may take its time not to answer, for each container
        try:
            return _state(self._server, dag, run, name) in OVER
        except NotFound as error:
            if run in error.detail:
                return True
            self._unknown = error  # another server's words, as those of a proxy whose Airflow is away
        except (Unavailable, ConfigurationError) as error:
            self._unknown = error
        return False


def _state(server: AirflowServer, *names: str) -> str | None:
    """The state of a task, by its DAG, run and own name; None if it has none yet."""
    dag, run, task = (quote(name, safe="") for name in names)
    with as_expected():
        state = server.get(f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}")["state"]
        if state is None or isinstance(state, str):
            return state
        raise TypeError(f"a task in state {state!r}")


def _end(runner: DockerRunner, found: Sequence[Orphan]) -> RatchetError | None:
    """End containers, together; what kept it from ending one of them."""
    signal.alarm(_LIMIT_S + math.ceil(max((orphan.grace_s for orphan in found), default=0)))
    for orphan in found:
        _log.warning("ending %s of %s, run %s: no task follows it", orphan.stage, orphan.pipeline, orphan.run_id)
    try:
        reap_all(runner, found)
    except RatchetError as error:
        return error
    return None


def _look_for_the_watch() -> None:
    """Alert people if nobody has started it; and mark that a reaper is there, for which the watch looks."""
    store = open_store(settings.read().store)
    presence.mark(store, "reaper")
    presence.report(store, "watch")


def _post_what_waits() -> None:
    """Post what callbacks have kept while the store was away, where there is no watch: its next task may be far off."""
    waits = delivery.spool()
    if waits.files() and not waits.is_of_the_watch():
        waits.drain(delivery.outbox_of(open_store(settings.read().store)))


def _mark_this_host() -> None:
    """Mark that it is there, for which the watch looks, and how many GPUs it has, if its driver says it."""
    if engine_available() is not None:
        return
    store, engine = open_store(settings.read().store), DockerRunner().engine
    try:
        gpus = None if why_silent() else len(host_devices().names)
    except ConfigurationError:
        mark_host(store, installation(), engine, None)
        raise
    mark_host(store, installation(), engine, gpus)


if __name__ == "__main__":
    sys.exit(main())
