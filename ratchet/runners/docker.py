"""Stages as containers of a Docker engine, which may be on another machine."""

import math
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound, NotFound
from requests import Response
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from ratchet.contracts.errors import ConfigurationError, JobGone, Unavailable
from ratchet.contracts.exits import ExitCode
from ratchet.contracts.labels import MARK
from ratchet.runners.container import FOLDER, OUT_OF_MEMORY_SEEN, archive, container_config, renewal
from ratchet.runners.devices import Devices, claim
from ratchet.runners.engine import EngineSilent, answers, connect, remove_container
from ratchet.runners.engine_time import seconds_of
from ratchet.runners.job import Job
from ratchet.runners.log.entries import read_lines
from ratchet.runners.log.lines import Line
from ratchet.runners.log.position import Position, discard
from ratchet.runners.runner import NOTICE_AGAIN_S, Engine, Status

_NOT_FOUND, _CONFLICT = 404, 409
_QUIET_S = 30.0
"""Seconds without a line after which a follower asks whether the engine still answers."""
_LEAST_S = 0.001
_KILLED = frozenset({137, 143, 255})
"""Exit codes of a container that was killed: by SIGKILL, by SIGTERM, and with its whole machine."""
_SHUTDOWN_S = 15.0
"""Seconds that may pass from the end of a container to the silence of an engine that ended it while it shut down."""


class DockerRunner:
    """Runs each job as a container. A handle is a container's id: valid in every process that reaches the engine."""

    durable = True

    def __init__(self) -> None:
        self._silent_since = math.inf
        self._back_since = math.inf

    def submit(self, job: Job) -> str:
        """Start a container for the job, with its files in it."""
        if job.image is None:
            raise ConfigurationError(f"{job.name} names no image", remedy="name one, or use the process runner")
        name = f"ratchet-{job.name}-{secrets.token_hex(4)}"

        def create(devices: Devices) -> str:
            config = container_config(job, cpus=self._cpus, devices=devices)
            made: str = self._api.create_container_from_config(config, name)["Id"]  # type: ignore[no-untyped-call]  # the stubs lag behind
            return made

        try:
            with answers(job):
                handle = claim(self._api, job, create)
                try:
                    self._api.put_archive(handle, str(PurePosixPath(FOLDER).parent), archive(job))
                    self._api.start(handle)
                except NotFound as error:
                    if handle not in str(error.explanation):
                        raise
                    raise Unavailable(f"{job.name}: its container was removed before it started") from error
        except BaseException:
            with suppress(Unavailable, ConfigurationError):
                self.remove(name)
            raise
        return handle

    def status(self, handle: str) -> Status:
        """The job's state now."""
        with self._answers():
            try:
                state: dict[str, Any] = self._api.inspect_container(handle)["State"]
            except NotFound:
                raise _gone(handle) from None
        if state["Running"] or state["Status"] == "created":
            return Status(running=True, begun=bool(state["Running"]))
        exit_code: int = state["ExitCode"]
        # The engine's flag is missing at times (docs/adr/013). It says that the limit was met; a stage that lost a
        # worker to it and still succeeded is done.
        out_of_memory = exit_code == OUT_OF_MEMORY_SEEN or (bool(state["OOMKilled"]) and exit_code != ExitCode.DONE)
        return Status(
            running=False,
            exit_code=int(ExitCode.OUT_OF_MEMORY) if out_of_memory else exit_code,
            out_of_memory=out_of_memory,
            cause="" if out_of_memory or exit_code not in _KILLED else self._why_killed(state),
        )

    def _why_killed(self, state: Mapping[str, str]) -> str:
        """Why, if an engine's restart explains it: this runner saw it, or the default bridge was made by it."""
        ended = seconds_of(state["FinishedAt"])
        if self._silent_since - _SHUTDOWN_S < ended <= self._back_since:
            return "the Docker engine was restarted"
        try:
            with self._answers():
                began = seconds_of(self._api.inspect_network("bridge")["Created"])
        except (Unavailable, ConfigurationError, KeyError):
            return ""
        if seconds_of(state["StartedAt"]) < began and ended < began + _SHUTDOWN_S:
            return "it was killed, and the Docker engine has been restarted"
        return ""

    def wait(self, handle: str, timeout_s: float | None = None) -> Status:
        """Block until the job ends, or for `timeout_s` seconds at most; then its state.

        No answer of the engine is waited for longer than _QUIET_S: it is asked for the state in between, because an
        engine may never say that a container has ended.
        """
        end = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            begin = time.monotonic()
            limit_s = max(0.0, min(_QUIET_S, end - begin))
            # An expired wait is no error; if the engine is gone, the status below raises.
            with suppress(RequestException), self._open("POST", handle, "wait", {}, limit_s or _LEAST_S) as response:
                response.content  # noqa: B018 - blocks until the container ends
            status = self.status(handle)
            now = time.monotonic()
            if not status.running or now >= end:
                return status
            if now - begin < limit_s:
                if timeout_s is not None:
                    return status
                raise EngineSilent(f"the Docker engine stopped waiting for container {handle[:12]}, which still runs")

    def logs(self, handle: str, since: Position | None = None, until: float = math.inf) -> Iterator[Line]:
        """Lines after a position until the job ends, straight from the engine: nothing is kept here.

        since: where to begin; the begin of the log if not given. It moves behind each line before that is yielded.
        until: the `time.monotonic()` after which it only reads what is there. A stream that goes on is not cut.
        """
        position = Position() if since is None else since
        running = True
        while running and (left := until - time.monotonic()) > 0:
            quiet_s = min(_QUIET_S, max(left, 1.0))
            with suppress(HTTPError, RequestException):  # a stream that breaks is opened again if the engine answers
                yield from self._lines(handle, position, follow=True, quiet_s=quiet_s)
            running = self.wait(handle, 1).running
        running = running and self.status(handle).running
        with self._answers():
            yield from self._lines(handle, position, follow=False, last=not running)

    def _lines(
        self, handle: str, position: Position, *, follow: bool, quiet_s: float = _QUIET_S, last: bool = False
    ) -> Iterator[Line]:
        params = {"follow": str(int(follow)), "stdout": "1", "stderr": "1", "timestamps": "1", **position.since}
        with self._answers():
            response = self._open("GET", handle, "logs", params, quiet_s)
        with response:
            if response.status_code == _NOT_FOUND:
                raise _gone(handle)
            response.raise_for_status()
            yield from read_lines(response.raw, position, last=last)

    def _open(self, method: str, handle: str, what: str, params: dict[str, str], timeout_s: float | None) -> Response:
        """A response whose body comes while the container runs. The SDK's own calls leave sockets open on a timeout."""
        url = f"{self._api.base_url}/v{self._api.api_version}/containers/{handle}/{what}"
        timeout = (self._api.timeout, timeout_s)
        return self._api.request(method, url, params=params, stream=True, timeout=timeout)

    def renew(self, handle: str, secret: str, content: bytes) -> None:
        """Replace a secret of a container: the engine takes the file away and writes another one."""
        user = self.user(handle)
        with self._answers():
            try:
                self._api.put_archive(handle, str(PurePosixPath(FOLDER).parent), renewal(user, secret, content))
            except NotFound:
                raise _gone(handle) from None

    def user(self, handle: str) -> str:
        """`uid:gid` of a container. Raises JobGone."""
        with self._answers():
            try:
                found: str = self._api.inspect_container(handle)["Config"]["User"]
            except NotFound:
                raise _gone(handle) from None
        return found

    def notify(self, handle: str) -> None:
        """SIGTERM, and no waiting. Quiet if the job has ended. A paused container is resumed first."""
        self._resume(handle)
        with self._answers():
            try:
                self._api.kill(handle, signal="SIGTERM")
            except NotFound:
                return
            except APIError as error:
                if error.status_code != _CONFLICT:  # a conflict: it is not running
                    raise

    def stop(self, handle: str, grace_s: float) -> None:
        """SIGTERM, and SIGKILL after `grace_s` seconds. A paused container is resumed first, and has its grace."""
        end = time.monotonic() + grace_s
        while (left := end - time.monotonic()) > 0:
            self.notify(handle)
            try:
                if not self.wait(handle, min(left, NOTICE_AGAIN_S)).running:
                    return
            except JobGone:
                return
        with self._answers(), suppress(NotFound):
            self._api.stop(handle, timeout=0)

    def _resume(self, handle: str) -> None:
        with self._answers(), suppress(APIError):  # it is gone, or is not paused
            self._api.unpause(handle)

    def remove(self, handle: str) -> None:
        """Kill if needed, and remove the container, its volume and the position that is kept of its log."""
        with self._answers():
            remove_container(self._api, handle)
        discard(handle)

    def find(self, labels: Mapping[str, str]) -> list[str]:
        """Ids of all containers, running or ended, that carry all these labels; the newest first."""
        wanted = [f"{name}={value}" for name, value in {**labels, **MARK}.items()]
        with self._answers():
            return [found["Id"] for found in self._api.containers(all=True, filters={"label": wanted})]

    def labels(self, handle: str) -> Mapping[str, str]:
        """The labels of a container. Raises JobGone."""
        with self._answers():
            try:
                found: dict[str, str] = self._api.inspect_container(handle)["Config"]["Labels"]
            except NotFound:
                raise _gone(handle) from None
        return found

    def image_id(self, image: str) -> str:
        """The digest (`sha256:...`) of an image in this engine."""
        with answers(image=image):
            identity: str = self._api.inspect_image(image)["Id"]  # type: ignore[no-untyped-call]  # the stubs lag behind
        return identity

    def has_image(self, image: str) -> bool:
        """Whether this engine has an image."""
        with self._answers():
            try:
                self._api.inspect_image(image)  # type: ignore[no-untyped-call]  # the stubs lag behind
            except ImageNotFound:
                return False
        return True

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """Raise the engine's errors as Ratchet's, and note when it stops answering and when it answers again."""
        try:
            with answers():
                yield
        except EngineSilent:
            if self._back_since <= time.time() or self._silent_since == math.inf:
                self._silent_since, self._back_since = time.time(), math.inf
            raise
        if self._silent_since < math.inf and self._back_since == math.inf:
            self._back_since = time.time()

    @cached_property
    def _api(self) -> docker.APIClient:
        return connect()

    @cached_property
    def engine(self) -> Engine:
        """The engine. Its id has its host's name in it: engines of hosts that were cloned have one id."""
        with self._answers():
            found = self._info
        host = found.get("Name", "?")
        return Engine(f"{host}/{found.get('ID', '?')}", host)

    @property
    def _cpus(self) -> int:
        cores: int = self._info["NCPU"]
        return cores

    @cached_property
    def _info(self) -> dict[str, Any]:
        found: dict[str, Any] = self._api.info()
        return found


def _gone(handle: str) -> JobGone:
    return JobGone(f"container {handle[:12]} is gone", remedy="find out who removed it, unless you did")
