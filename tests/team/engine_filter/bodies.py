"""The body that the runner makes, to be bent."""

import copy
from typing import Any

from ratchet.contracts.labels import Label
from ratchet.contracts.stages import Resources
from ratchet.runners.container import container_config
from ratchet.runners.devices import Devices
from ratchet.runners.job import Job
from team.engine_filter.policy import Policy

SETTINGS = Policy(
    installation="here",
    networks=("stages",),
    cache_volume="cache",
    max_memory="8g",
    max_shm="1g",
    max_cpus=8,
    max_pids=1000,
)
GONE = object()


def body(
    image: str = "ratchet-stage:cpu", *, gpus: tuple[str, ...] = (), cache: str | None = None, **labels: str
) -> dict[str, Any]:
    """As the runner makes it, for a job that ends at once."""
    job = Job(
        name="a",
        request=b"{}",
        image=image,
        labels={Label.TEST: "1", **{f"ratchet.{name}": value for name, value in labels.items()}},
        resources=Resources(),
        cache=cache,
        command=("python", "-I", "-S", "-c", "pass"),
    )
    made: dict[str, Any] = copy.deepcopy(dict(container_config(job, cpus=2, devices=Devices(names=gpus))))
    return made


def bent(changed: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """The body with one value set, or taken out."""
    copied: Any = copy.deepcopy(changed)
    at = copied
    for part in path[:-1]:
        at = at[part]
    if value is GONE:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return copied  # type: ignore[no-any-return] # what was put in
