"""The connection to a Docker engine, and its errors as Ratchet's."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from docker.utils import kwargs_from_env
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from ratchet.contracts.environment import variable
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.runners.job import Job

_SERVER_ERROR = 500
_AWAY = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})
"""Status codes of a proxy before an engine that does not answer."""
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
"""Refusals that end without a person: another request is in the way, such as the removal of the same container."""
_SOCKET = "/var/run/docker.sock"


class EngineSilent(Unavailable):
    """The engine did not answer at all, for example because it restarts."""


def engine_named() -> bool:
    """Whether an engine is set up for this process, answering or not: DOCKER_HOST, or the usual socket."""
    return bool(os.environ.get("DOCKER_HOST")) or Path(_SOCKET).exists()


def engine_available() -> str | None:
    """None if a Docker engine answers, otherwise the reason why not."""
    try:
        with docker.APIClient(timeout=5, **kwargs_from_env()) as api:
            api.ping()
    except (DockerException, RequestException, ValueError) as error:
        return _deepest(error)
    return None


def connect() -> docker.APIClient:
    """A client of the engine that the environment names (DOCKER_HOST, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH)."""
    with answers():
        return docker.APIClient(**kwargs_from_env())


def remove_container(api: docker.APIClient, handle: str) -> None:
    """Kill a container if needed, and remove it with its volumes. Quiet if it is gone, or another removes it."""
    try:
        api.remove_container(handle, v=True, force=True)
    except APIError as error:
        if error.status_code not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
            raise


@contextmanager
def answers(job: Job | None = None, image: str | None = None) -> Iterator[None]:
    """Raise the engine's errors as Ratchet's: it does not answer, or it cannot do what was asked."""
    try:
        yield
    except ImageNotFound as error:
        name = image or (job.image if job else None) or "?"
        raise ConfigurationError(
            f"image {name} is not in the engine",
            remedy="build it: `make images`; for a GPU, `VARIANT=gpu scripts/images.sh`",
        ) from error
    except APIError as error:
        what = f"{job.name}: " if job else ""
        said = f"{what}the Docker engine refused: {error.explanation}"
        if "device driver" in said:
            raise ConfigurationError(
                said, remedy="install the NVIDIA container toolkit, or set resources.<stage>.gpus to 0"
            ) from error
        if error.status_code in _AWAY:
            raise EngineSilent(said, remedy="start it: scripts/engine.sh") from error
        if job is not None and job.network in said and "network" in said.replace(job.network, ""):
            remedy = f"create the network that {variable('stage_network')} names"
            raise ConfigurationError(said, remedy=remedy) from error
        if (error.status_code or _SERVER_ERROR) < _SERVER_ERROR and error.status_code not in _PASSING:
            raise ConfigurationError(said, remedy="check resources in pipeline.yaml and the store's folder") from error
        raise Unavailable(said) from error
    except (DockerException, RequestException, HTTPError) as error:
        raise EngineSilent(
            f"the Docker engine does not answer: {_deepest(error)}", remedy="start it: scripts/engine.sh"
        ) from error


def _deepest(error: BaseException) -> str:
    """The innermost reason; the outer ones only wrap it."""
    inner = error.__cause__ or error.__context__
    while inner is not None:
        error, inner = inner, inner.__cause__ or inner.__context__
    return str(error) or type(error).__name__
