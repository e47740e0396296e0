"""The trigger that follows the container of a stage in the triggerer, while the stage's task is deferred.

Where the follower of another host follows the container, it looks for what that one says in the store.

A change here violates the promise of the project when a triggerer that stops, or loses its triggers to another one,
ends a container.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from secrets import token_hex
from threading import Event as Signal
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin

from airflow.triggers.base import BaseTrigger, TriggerEvent

from ratchet.contracts.errors import NoAnswer, OtherRelease, Unavailable
from ratchet_airflow.progress import fields_of, level_of, line_of

if TYPE_CHECKING:
    from ratchet.runners.docker import DockerRunner
    from ratchet.runs.events import Event
    from ratchet.runs.left_elsewhere import FarFollower
    from ratchet.runs.left_job import Follower

_MOST = 1000
"""Containers that a triggerer follows at most at once, each in a thread. See also Airflow's [triggerer] capacity."""
_LEAST_S = 10.0
"""Seconds that a task is deferred at least. Airflow 3.3 counts a task as lost that runs again before the scheduler has
seen that its process before the deferral has ended, which takes a loop of the scheduler."""
_ASK_S, _AGAIN_S = 3.0, 5.0
_threads = ThreadPoolExecutor(_MOST, thread_name_prefix="follow")
_log = logging.getLogger("ratchet.stage")
_Answer = TypeVar("_Answer")


class ContainerTrigger(BaseTrigger):
    """Follows a container until its task has to go on. request: of the stage, as JSON; store: its URI.

    left: where the task has left it to the follower of its host, in the store; without it, this engine has it.
    """

    def __init__(self, *, store: str, request: str, left: str | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # Airflow's own has no types
        self.store, self.request, self.left = store, request, left
        self._token = token_hex(2)  # of this object: another triggerer that has the same trigger is another holder
        self._over, self._fired = Signal(), False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of the class, and what makes an equal trigger in another process."""
        return f"{__name__}.{type(self).__name__}", {
            "store": self.store,
            "request": self.request,
            **({"left": self.left} if self.left is not None else {}),  # a release before does not know it
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: why the task has to go on (`why`), whether it may be deferred again (`again`), and its `log`."""
        began = time.monotonic()
        following, watching = in_thread(self._follow), asyncio.ensure_future(self.watch())
        try:
            await asyncio.wait([following])
            await asyncio.sleep(began + _LEAST_S - time.monotonic())
        finally:
            self._over.set()
            watching.cancel()
        error = following.exception()
        self._fired = True
        # What passes by itself, as an engine that answers 500, is no reason to hold a worker for hours.
        again = isinstance(error, Unavailable) and not isinstance(error, OtherRelease)
        fired = following.result() if error is None else {"why": str(error), "again": again}
        yield TriggerEvent(fired)  # type: ignore[no-untyped-call] # Airflow's own has no types

    async def watch(self) -> None:
        """What it does beside that, until it fires. That of a stage does nothing."""

    async def on_kill(self) -> None:
        """End the container, which has its whole grace, if a person has ended the task or cleared it.

        Airflow 3.3 also calls this where it gives the trigger to another triggerer: then the task is still deferred.
        """
        if not self._fired and not await in_thread(self._is_deferred):
            await in_thread(self.end)

    def end(self) -> None:
        """Send the container a notice to stop. Takes as long as the store needs to answer."""
        self._open().end()

    def _follow(self) -> dict[str, Any]:
        """A store that is away is waited for: else each task needs a worker that had none, all at once."""
        while True:
            try:
                follower = self._open()
                break
            except NoAnswer:
                if self._over.wait(_AGAIN_S):
                    raise
        why = follower.follow()
        return {"why": why.text, "again": why.again, "log": why.log}

    def _open(self) -> "Follower | FarFollower":
        from ratchet.contracts.request import StageRequest
        from ratchet.runs.history import plan_to_follow
        from ratchet.runs.left_elsewhere import FarFollower
        from ratchet.runs.left_job import Follower
        from ratchet.store.opening import open_store

        store, request = open_store(self.store), StageRequest.model_validate_json(self.request)
        plan = plan_to_follow(store, request.spec.name, request.run_id)
        if plan is None:
            raise Unavailable(f"the plan of run {request.run_id} is not in the store")
        if self.left is not None:
            return FarFollower(store, plan, request, self.left, over=self._over, on_event=_log_event)
        name = f"{request.attempt}-{self._token}"
        return Follower(store, plan, request, _engine(), name=name, over=self._over, on_event=_log_event)

    def _is_deferred(self) -> bool:
        """Whether Airflow still has the task as deferred. Where it does not say, the reaper decides."""
        from ratchet_airflow.task_states import task_state

        task: Any = self.task_instance
        return task_state(task.dag_id, task.run_id, task.task_id, task.map_index) == "deferred"


def in_thread(work: Callable[[], _Answer]) -> "asyncio.Future[_Answer]":
    """Do some work in a thread: the loop is that of all triggers, and an engine or a store may take minutes."""
    return asyncio.wrap_future(_threads.submit(copy_context().run, work))


def is_triggerer_well() -> bool:
    """Whether Airflow says that a triggerer runs. False where it does not answer."""
    import requests
    from airflow.sdk.configuration import conf

    base = str(conf.get("api", "base_url", fallback="")).rstrip("/")
    server = str(conf.get("core", "execution_api_server_url", fallback="") or f"{base}/execution/")
    try:
        answer = requests.get(urljoin(server, "../api/v2/monitor/health"), timeout=_ASK_S)
        answer.raise_for_status()
        found: Any = answer.json()
    except (requests.RequestException, ValueError):
        return False
    return isinstance(found, dict) and (found.get("triggerer") or {}).get("status") == "healthy"


@cache
def _engine() -> "DockerRunner":
    """The engine of this host, one for all triggers: each client of it takes memory."""
    from ratchet.runners.docker import DockerRunner

    return DockerRunner()


def _log_event(event: "Event") -> None:
    _log.log(level_of(event), line_of(event), extra=fields_of(event))
