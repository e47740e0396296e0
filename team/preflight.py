"""Checks before the stack starts: one line for each problem, with its remedy."""

import errno
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import docker

from ratchet.contracts.diagnosis import problems as problems_of
from ratchet.contracts.errors import ConfigurationError, RatchetError
from ratchet.contracts.labels import STAGE_USER
from ratchet.runners.diagnosis import diagnose_engine, diagnose_engine_host
from ratchet.runners.engine import connect
from ratchet.store.diagnosis import SKEW_S, local_time
from team import stack
from team.cpu_limits import too_many
from team.settings import Settings

_ANSWERS_S = 5
_LOGS_PORT = 8793
_PORTS = ("airflow", "mlflow", "s3", "redis")
_HERE = ("127.0.0.1", "::1", "localhost")


def problems(root: Path, home: Path, settings: Settings) -> list[str]:
    """Every problem that would stop the stack; an empty list if there is none. Nothing is changed."""
    found = [*_engine(), *_compose(), *_folder(home), *_pipelines(root, settings), *_clock(root)]
    found += too_many(settings, os.cpu_count() or 1)
    if not found:  # the rest asks the engine
        with connect() as api:
            found = [*_database(api, home, settings), *_ports(api, settings)]
            found += problems_of(diagnose_engine_host(api))
            found += _main_host(settings)
    return found


def _engine() -> Iterator[str]:
    host = os.environ.get("DOCKER_HOST", "unix://")
    if not host.startswith("unix://") and urlsplit(host).hostname not in _HERE:
        yield f"DOCKER_HOST is {host}, but the files and ports of the stack are here; run this where the engine is"
        return
    yield from problems_of(diagnose_engine())


def _compose() -> Iterator[str]:
    yield from _said(stack.program)


def _folder(home: Path) -> Iterator[str]:
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        yield f"{existing} is not writable; run this as its owner, or change its owner (chown)"
        return
    secrets = home / "secrets"
    if secrets.is_dir() and (secrets.stat().st_mode & 0o077 or secrets.stat().st_uid != os.getuid()):
        yield f"{secrets} is readable by others or belongs to another user; `chmod 700` it, and run this as its owner"


def _pipelines(root: Path, settings: Settings) -> Iterator[str]:
    """Whether the services see the pipelines of a folder: they have another user, and nothing else of the host."""
    if settings.has_git:
        return
    folder = root / settings.pipelines_folder
    if not folder.is_dir():
        yield f"RATCHET_PIPELINES: there is no folder {folder}; create it, or mount its disk"
        return
    owner = os.getuid() or STAGE_USER
    for path in (folder, *sorted(folder.glob("*")), *sorted(folder.glob("*/*"))):
        try:
            leads_out = path.is_symlink() and not path.resolve(strict=True).is_relative_to(folder.resolve())
            readable = leads_out or _readable_by(owner, path)
        except (OSError, RuntimeError):  # a link that leads nowhere, as editors make beside an open file
            continue
        if leads_out:
            yield f"RATCHET_PIPELINES: {path} leads out of {folder}, where the services see nothing; replace the link"
        elif not readable:
            yield f"RATCHET_PIPELINES: the services may not read {path}; run `chmod -R a+rX {folder}`"
            return


def _readable_by(user: int, path: Path) -> bool:
    """Whether a user of group 0 may read a file, or list a folder."""
    found, wanted = path.stat(), 0o5 if path.is_dir() else 0o4
    shift = 6 if found.st_uid == user else 3 if found.st_gid == 0 else 0
    return found.st_mode >> shift & wanted == wanted


def _clock(root: Path) -> Iterator[str]:
    written = (root / "docker-compose.yaml").stat().st_mtime
    if time.time() < written - SKEW_S:
        now, then = local_time(time.time()), local_time(written)
        yield f"the clock shows {now}, but docker-compose.yaml is of {then}; set the clock"


def _database(api: docker.APIClient, home: Path, settings: Settings) -> Iterator[str]:
    if (home / "secrets" / "made.json").is_file() or settings.database_url or settings.main_host:
        return
    volume = f"{settings.project}_database"
    if api.volumes(filters={"name": f"^{volume}$"})["Volumes"]:
        yield (
            f"the volume {volume} exists, but {home} lacks the secrets that open it; restore a backup with "
            "`make restore`, or delete the volume with `python -m team down --volumes`"
        )


def _ports(api: docker.APIClient, settings: Settings) -> Iterator[str]:
    ours: list[dict[str, Any]] = api.containers(filters={"label": [f"com.docker.compose.project={settings.project}"]})
    held = {port.get("PublicPort") for container in ours for port in container["Ports"]}
    wanted = {"airflow": settings.airflow_port, "mlflow": settings.mlflow_port, "s3": settings.s3_port}
    places = [("127.0.0.1", service, port) for service, port in wanted.items()]
    if settings.listen:
        others = {**wanted, "redis": settings.redis_port}
        places += [(settings.listen, service, port) for service, port in others.items()]
    if settings.listen and settings.main_host:
        places = [(settings.listen, "the logs", _LOGS_PORT)]
    for address, service, port in places:
        if service in settings.elsewhere or port in held:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                said = f"port {port} on {address} is not free for {service}: {(error.strerror or '').lower()}"
                if error.errno == errno.EADDRNOTAVAIL:
                    yield f"{said}; set RATCHET_LISTEN to an address of this host"
                    return
                setting = f"set RATCHET_{service.upper()}_PORT in .env, or " if service in _PORTS else ""
                yield f"{said}; {setting}end the process that listens there"


def _main_host(settings: Settings) -> Iterator[str]:
    """Whether this host reaches the servers of the main host that its worker needs."""
    if not settings.main_host:
        return
    ports = {"airflow": settings.airflow_port, "redis": settings.redis_port}
    ports |= {} if settings.mlflow_url else {"mlflow": settings.mlflow_port}
    ports |= {} if settings.s3_endpoint else {"s3": settings.s3_port}
    for service, port in ports.items():
        try:
            socket.create_connection((settings.main_host, port), timeout=_ANSWERS_S).close()
        except OSError as error:
            yield (
                f"{service} does not answer at {settings.main_host}:{port}: {error.strerror or error}; "
                "set RATCHET_LISTEN there, and open the port between the hosts"
            )


def _said(asked: Callable[[], object]) -> Iterator[str]:
    try:
        asked()
    except RatchetError as error:
        yield f"{error.cause}; {error.remedy}" if isinstance(error, ConfigurationError) else str(error)
