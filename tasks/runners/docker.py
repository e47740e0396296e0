"""Stages as containers of a Docker engine, which may be on another machine."""

import math
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.utils import kwargs_from_env
from requests import Response
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from tasks.contracts.errors import ConfigurationError, Unavailable
from tasks.contracts.exits import ExitCode
from tasks.runners.container import FOLDER, MARK, archive, container_config
from tasks.runners.entries import Position
from tasks.runners.job import Job
from tasks.runners.lines import Line, Splitter, Stream
from tasks.runners.runner import Status

_CONFLICT = 409
_SERVER_ERROR = 500


def engine_available() -> str | None:
    """None if a Docker engine answers, otherwise why not."""
    try:
        with docker.APIClient(timeout=5, **kwargs_from_env()) as api:
            api.ping()
    except (DockerException, RequestException, ValueError) as error:
        return _deepest(error)
    return None


class DockerRunner:
    """Runs each job as a container. A handle is a container's id: valid in every process that reaches the engine."""

    def submit(self, job: Job) -> str:
        """Start a container for the job, with its files in it."""
        if job.image is None:
            raise ConfigurationError(f"{job.name} names no image", remedy="name one, or use the process runner")
        name = f"ratchet-{job.name}-{secrets.token_hex(4)}"
        try:
            with _answers(job):
                config = container_config(job, cpus=self._cpus)
                handle: str = self._api.create_container_from_config(config, name)["Id"]  # type: ignore[no-untyped-call]  # the stubs lag behind
                self._api.put_archive(handle, str(PurePosixPath(FOLDER).parent), archive(job))
                self._api.start(handle)
        except BaseException:
            with suppress(Unavailable, ConfigurationError):
                self.remove(name)
            raise
        return handle

    def status(self, handle: str) -> Status:
        """How the job stands now."""
        with _answers():
            try:
                state: dict[str, Any] = self._api.inspect_container(handle)["State"]
            except NotFound:
                raise _gone(handle) from None
        if state["Running"] or state["Status"] == "created":
            return Status(running=True)
        exit_code: int = state["ExitCode"]
        # The flag says that the limit was met; a stage that lost a worker to it and ended well all the same is done.
        out_of_memory = bool(state["OOMKilled"]) and exit_code != ExitCode.DONE
        return Status(
            running=False,
            exit_code=int(ExitCode.OUT_OF_MEMORY) if out_of_memory else exit_code,
            out_of_memory=out_of_memory,
        )

    def wait(self, handle: str, timeout_s: float | None = None) -> Status:
        """Block until the job ends, or for `timeout_s` seconds at most; then how it stands."""
        # An expired wait is no error, and an engine that is gone shows in the status below.
        with suppress(RequestException), self._open("POST", handle, "wait", {}, timeout_s) as response:
            response.content  # noqa: B018 - comes when the container ends
        status = self.status(handle)
        if status.running and timeout_s is None:
            raise Unavailable(f"the Docker engine no longer says how container {handle[:12]} ends")
        return status

    def logs(self, handle: str) -> Iterator[Line]:
        """Lines from the start, following until the job ends, straight from the engine: nothing is kept here."""
        splitters: dict[Stream, Splitter] = {"stdout": Splitter("stdout"), "stderr": Splitter("stderr")}
        position = Position()
        running = True
        while running:
            with suppress(HTTPError, RequestException):  # a stream that breaks is taken up again, if the engine answers
                for stream, text in self._entries(handle, position, follow=True):
                    yield from splitters[stream].feed(text)
            running = self.wait(handle, 1).running
        with _answers():
            for stream, text in self._entries(handle, position, follow=False):
                yield from splitters[stream].feed(text)
        for splitter in splitters.values():
            yield from splitter.close()

    def _entries(self, handle: str, position: Position, *, follow: bool) -> Iterator[tuple[Stream, bytes]]:
        params = {"follow": str(int(follow)), "stdout": "1", "stderr": "1", "timestamps": "1", **position.since}
        with _answers():
            response = self._open("GET", handle, "logs", params, None)
        with response:
            if response.status_code == 404:  # noqa: PLR2004 - HTTP's own
                raise _gone(handle)
            response.raise_for_status()
            yield from position.entries(response.raw)

    def _open(self, method: str, handle: str, what: str, params: dict[str, str], timeout_s: float | None) -> Response:
        """A response whose body comes as the container goes on. The SDK's own calls leave sockets open on a timeout."""
        url = f"{self._api.base_url}/v{self._api.api_version}/containers/{handle}/{what}"
        timeout = (self._api.timeout, timeout_s)
        return self._api.request(method, url, params=params, stream=True, timeout=timeout)

    def stop(self, handle: str, grace_s: float) -> None:
        """SIGTERM, and SIGKILL after `grace_s` seconds."""
        with _answers(), suppress(NotFound):
            self._api.stop(handle, timeout=math.ceil(grace_s))

    def remove(self, handle: str) -> None:
        """Kill if needed, and remove the container with its volume."""
        with _answers():
            try:
                self._api.remove_container(handle, v=True, force=True)
            except NotFound:
                return
            except APIError as error:
                if error.status_code != _CONFLICT:  # a conflict: somebody is removing it already
                    raise

    def find(self, labels: Mapping[str, str]) -> list[str]:
        """Ids of all containers, running or ended, that carry all these labels; the newest first."""
        wanted = [f"{name}={value}" for name, value in {**labels, **MARK}.items()]
        with _answers():
            return [found["Id"] for found in self._api.containers(all=True, filters={"label": wanted})]

    def image_id(self, image: str) -> str:
        """The digest (`sha256:...`) that an image's name stands for in this engine."""
        with _answers(image=image):
            identity: str = self._api.inspect_image(image)["Id"]  # type: ignore[no-untyped-call]  # the same
        return identity

    @cached_property
    def _api(self) -> docker.APIClient:
        with _answers():
            return docker.APIClient(**kwargs_from_env())

    @cached_property
    def _cpus(self) -> int:
        cores: int = self._api.info()["NCPU"]
        return cores


def _gone(handle: str) -> ConfigurationError:
    return ConfigurationError(f"container {handle[:12]} is gone", remedy="submit the job again")


@contextmanager
def _answers(job: Job | None = None, image: str | None = None) -> Iterator[None]:
    """The engine's errors as ours: it does not answer, or it cannot do what is asked."""
    try:
        yield
    except ImageNotFound as error:
        name = image or (job.image if job else None) or "?"
        raise ConfigurationError(
            f"image {name} is not in the engine", remedy="build it: `make images`, or scripts/images.sh"
        ) from error
    except APIError as error:
        what = f"{job.name}: " if job else ""
        said = f"{what}the Docker engine refused: {error.explanation}"
        if "device driver" in said:
            raise ConfigurationError(
                said, remedy="install the NVIDIA container toolkit, or set resources.<stage>.gpus to 0"
            ) from error
        if (error.status_code or _SERVER_ERROR) < _SERVER_ERROR:
            raise ConfigurationError(said, remedy="see resources and the store's folder") from error
        raise Unavailable(said) from error
    except (DockerException, RequestException, HTTPError) as error:
        raise Unavailable(
            f"the Docker engine does not answer: {_deepest(error)}", remedy="start it: scripts/engine.sh"
        ) from error


def _deepest(error: BaseException) -> str:
    """The innermost reason; the outer ones only wrap it."""
    inner = error.__cause__ or error.__context__
    while inner is not None:
        error, inner = inner, inner.__cause__ or inner.__context__
    return str(error) or type(error).__name__
