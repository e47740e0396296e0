"""The choice of a runner and of the image that its stages run in: made once, when a run is planned.

A change here violates the promise of the project when a run that was planned for containers runs a stage elsewhere.
"""

from ratchet.checkout import IMAGES
from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.request import PROCESS
from ratchet.runners.docker import DockerRunner
from ratchet.runners.engine import EngineSilent, engine_available, engine_named
from ratchet.runners.following import PATIENCE_S, retry_unavailable
from ratchet.runners.process import ProcessRunner
from ratchet.runners.runner import Runner

_CONTAINERS = "stages run in containers"


def stage_image(*, gpu: bool) -> str:
    """The image that the environment names, or the one that scripts/images.sh built last in this checkout.

    A pipeline that trains on a GPU takes RATCHET_STAGE_IMAGE_GPU, or RATCHET_STAGE_IMAGE where that is not set.
    """
    variant = "gpu" if gpu else "cpu"
    here = environment()
    if named := (here.stage_image_gpu if gpu else None) or here.stage_image:
        return named
    built = IMAGES / variant
    return built.read_text(encoding="utf-8").strip() if built.is_file() else f"ratchet-stage:{variant}"


def choose_runner(wanted: str | None, *, patient: bool = False) -> tuple[Runner, str]:
    """(runner, a text that says how stages run) of a new run; its plan keeps the choice.

    With None: docker where a Docker engine is set up on this machine, whether or not it answers, else process. patient:
    whether an engine that does not answer is asked again for PATIENCE_S seconds. Raises Unavailable if it still does
    not answer, and ConfigurationError for an unknown name.
    """
    if wanted == "process":
        return ProcessRunner(), "stages run as processes"
    if wanted not in {None, "docker"}:
        raise ConfigurationError(f"runner {wanted!r} is unknown; allowed: process, docker", remedy="use one of them")
    if not engine_expected(wanted):
        return ProcessRunner(), "NO DOCKER ENGINE on this machine: stages run as processes, without their limits"
    await_engine(PATIENCE_S if patient else 0)
    return DockerRunner(), _CONTAINERS


def planned_runner(image: str) -> tuple[Runner, str]:
    """The runner of a run whose plan names this image, as choose_runner returns it. Nothing is asked of an engine.

    A run keeps its runner: an engine that does not answer is waited for, and no container becomes a process.
    """
    return (ProcessRunner(), "stages run as processes") if image == PROCESS else (DockerRunner(), _CONTAINERS)


def engine_expected(wanted: str | None) -> bool:
    """Whether a person wants containers, or has set up an engine here and wants nothing else."""
    return wanted == "docker" or (wanted is None and engine_named())


def await_engine(limit_s: float) -> None:
    """Wait until the engine answers. Raises Unavailable if it does not within `limit_s` seconds; asks once for 0."""

    def ask() -> None:
        if reason := engine_available():
            raise EngineSilent(
                f"no Docker engine answers: {reason}",
                remedy="start one (scripts/engine.sh), or run stages as processes: `ratchet run --runner process`, "
                f"in Airflow {variable('runner')}=process",
            )

    retry_unavailable(ask, limit_s)


def choose_image(runner: Runner, *, gpu: bool) -> tuple[str | None, str]:
    """(image of a new run, a text that names it); (None, "") for processes.

    The image is given by its digest, so that a run keeps it when others are built or tagged meanwhile.
    Raises ConfigurationError if the engine does not have it.
    """
    if not isinstance(runner, DockerRunner):
        return None, ""
    name = stage_image(gpu=gpu)
    return runner.image_id(name), f" of {name}"
