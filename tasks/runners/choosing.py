"""Which runner a machine has."""

import os
from pathlib import Path

from tasks.contracts.errors import ConfigurationError
from tasks.runners.docker import DockerRunner
from tasks.runners.engine import engine_available
from tasks.runners.process import ProcessRunner
from tasks.runners.runner import Runner

_ROOT = Path(__file__).resolve().parents[2]


def stage_image(*, gpu: bool) -> str:
    """The image that stages run in, as the environment names it, or what scripts/images.sh built last in this checkout.

    A pipeline that trains on a GPU takes RATCHET_STAGE_IMAGE_GPU, or RATCHET_STAGE_IMAGE where that is not set.
    """
    variant = "gpu" if gpu else "cpu"
    names = [*(["RATCHET_STAGE_IMAGE_GPU"] if gpu else []), "RATCHET_STAGE_IMAGE"]
    if named := next(filter(None, map(os.environ.get, names)), None):
        return named
    built = _ROOT / ".ratchet" / "images" / variant
    return built.read_text(encoding="utf-8").strip() if built.is_file() else f"ratchet-stage:{variant}"


def choose_runner(wanted: str | None, *, gpu: bool = False) -> tuple[Runner, str | None, str]:
    """(runner, image or None for processes, how stages run in words). Without a wish: docker, where an engine answers.

    The image is given by its digest, so that a run keeps it whatever is built or tagged meanwhile.
    Raises ConfigurationError if docker is wanted and no engine answers, for an unknown wish, and without an image.
    """
    if wanted == "process":
        return ProcessRunner(), None, "stages run as processes"
    if wanted not in {None, "docker"}:
        raise ConfigurationError(f"runner {wanted!r} is unknown; allowed: process, docker", remedy="choose one of them")
    reason = engine_available()
    if reason is None:
        image, runner = stage_image(gpu=gpu), DockerRunner()
        return runner, runner.image_id(image), f"stages run in containers of {image}"
    if wanted == "docker":
        raise ConfigurationError(
            f"no Docker engine: {reason}", remedy="start one (scripts/engine.sh), or use --runner process"
        )
    return ProcessRunner(), None, f"NO DOCKER ENGINE ({reason}): stages run as processes, without their limits"
