"""Which runner a machine has."""

import os

from tasks.contracts.errors import ConfigurationError
from tasks.runners.docker import DockerRunner, engine_available
from tasks.runners.process import ProcessRunner
from tasks.runners.runner import Runner


def stage_image(*, gpu: bool) -> str:
    """The image that stages run in: RATCHET_STAGE_IMAGE, or what scripts/images.sh builds."""
    return os.environ.get("RATCHET_STAGE_IMAGE") or f"ratchet-stage:{'gpu' if gpu else 'cpu'}"


def choose_runner(wanted: str | None, *, gpu: bool = False) -> tuple[Runner, str | None, str]:
    """(runner, image or None for processes, how stages run in words). Without a wish: docker, where an engine answers.

    Raises ConfigurationError if docker is wanted and no engine answers, or for an unknown wish.
    """
    if wanted == "process":
        return ProcessRunner(), None, "stages run as processes"
    if wanted not in {None, "docker"}:
        raise ConfigurationError(f"runner {wanted!r} is unknown; allowed: process, docker", remedy="choose one of them")
    reason = engine_available()
    if reason is None:
        image = stage_image(gpu=gpu)
        return DockerRunner(), image, f"stages run in containers of {image}"
    if wanted == "docker":
        raise ConfigurationError(
            f"no Docker engine: {reason}", remedy="start one (scripts/engine.sh), or use --runner process"
        )
    return ProcessRunner(), None, f"NO DOCKER ENGINE ({reason}): stages run as processes, without their limits"
