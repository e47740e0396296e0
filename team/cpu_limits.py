"""How many cores each service may use, so that none takes the host from the stages and the others."""

from collections.abc import Iterator

from team.settings import Settings

_SERVICE, _WORKER, _TASK = 2.0, 1.0, 0.25
"""Cores of a service; of a worker, and of each of its tasks, which follow a container and mostly wait."""
_SHARE = 0.75
"""No service gets more of the host by default."""


def cpu_limits(settings: Settings, cores: int) -> dict[str, str]:
    """The variables of docker-compose.yaml. cores: of this host."""
    most = _SHARE * cores
    service = settings.service_cpus or min(_SERVICE, most)
    worker = settings.worker_cpus or min(_WORKER + _TASK * settings.worker_tasks, most)
    return {"RATCHET_SERVICE_CPUS": f"{service:g}", "RATCHET_WORKER_CPUS": f"{worker:g}"}


def too_many(settings: Settings, cores: int) -> Iterator[str]:
    """A line for each limit that the engine would refuse."""
    given = {"SERVICE": settings.service_cpus, "WORKER": settings.worker_cpus}
    for name, limit in given.items():
        if limit is not None and limit > cores:
            yield f"RATCHET_{name}_CPUS: {limit:g} is more than the {cores} cores of this host; set {cores} at most"
