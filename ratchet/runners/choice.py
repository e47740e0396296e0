"""The choice of a runner and of the image that its stages run in."""

import os

from ratchet.checkout import IMAGES
from ratchet.contracts.errors import ConfigurationError
from ratchet.runners.docker import DockerRunner
from ratchet.runners.engine import engine_available
from ratchet.runners.process import ProcessRunner
from ratchet.runners.runner import Runner


def stage_image(*, gpu: bool) -> str:
    """The image that the environment names, or the one that scripts/images.sh built last in this checkout.

    A pipeline that trains on a GPU takes RATCHET_STAGE_IMAGE_GPU, or RATCHET_STAGE_IMAGE where that is not set.
    """
    variant = "gpu" if gpu else "cpu"
    names = [*(["RATCHET_STAGE_IMAGE_GPU"] if gpu else []), "RATCHET_STAGE_IMAGE"]
    if named := next(filter(None, map(os.environ.get, names)), None):
        return named
    built = IMAGES / variant
    return built.read_text(encoding="utf-8").strip() if built.is_file() else f"ratchet-stage:{variant}"


def choose_runner(wanted: str | None) -> tuple[Runner, str]:
    """(runner, a text that says how stages run). With None: docker if an engine answers, else process.

    Raises ConfigurationError if docker is wanted and no engine answers, and for an unknown name.
    """
    if wanted == "process":
        return ProcessRunner(), "stages run as processes"
    if wanted not in {None, "docker"}:
        raise ConfigurationError(f"runner {wanted!r} is unknown; allowed: process, docker", remedy="use one of them")
    reason = engine_available()
    if reason is None:
        return DockerRunner(), "stages run in containers"
    if wanted == "docker":
        raise ConfigurationError(
            f"no Docker engine: {reason}", remedy="start one (scripts/engine.sh), or use --runner process"
        )
    return ProcessRunner(), f"NO DOCKER ENGINE ({reason}): stages run as processes, without their limits"


def choose_image(runner: Runner, *, gpu: bool) -> tuple[str | None, str]:
    """(image of a new run, a text that names it); (None, "") for processes.

    The image is given by its digest, so that a run keeps it when others are built or tagged meanwhile.
    Raises ConfigurationError if the engine does not have it.
    """
    if not isinstance(runner, DockerRunner):
        return None, ""
    name = stage_image(gpu=gpu)
    return runner.image_id(name), f" of {name}"
