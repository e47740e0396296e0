"""Pools: how many cores and GPUs all runs may use at the same time.

The set-up creates them (`local.make_pools`, `team.initialise`), since a task waits for a pool that does not exist. A
slot of `ratchet_cpu` and of `ratchet_backfill` is a core, a slot of `ratchet_gpu` a device: a stage takes as many as
its resources say. Devices that RATCHET_POOL_BACKFILL_GPU sets aside are slots of `ratchet_backfill_gpu` and not of
`ratchet_gpu`: a device is promised once, or a stage would find it taken.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import Resources

CPU, GPU, BACKFILL, BACKFILL_GPU = "ratchet_cpu", "ratchet_gpu", "ratchet_backfill", "ratchet_backfill_gpu"
POOLS = {"pool_cpu": CPU, "pool_gpu": GPU, "pool_backfill": BACKFILL, "pool_backfill_gpu": BACKFILL_GPU}
"""The pools by the settings of their slots."""
GPU_QUEUE = "gpu"
USUAL_CORES, USUAL_GPUS = 4, 1
"""Slots where no setting says how many. `make serve` and `make up` set the cores and devices of their host."""
NIGHTLY_WEIGHT = 10
"""The priority weight of a task; a task of a backfill has a tenth of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool of Airflow. slots: their number, which RATCHET_POOL_CPU and its like override."""

    name: str
    slots: int
    description: str


@cache
def pools() -> Mapping[str, Pool]:
    """The pools by name. Raises ConfigurationError for a setting that is not a number above 0.

    They follow from settings alone: a host that parses DAG files, or another scheduler, would count other cores.
    """
    here = environment()
    devices, aside = here.pool_gpu or _listed_devices() or USUAL_GPUS, here.pool_backfill_gpu or 0
    if aside >= devices:
        raise ConfigurationError(
            f"{variable('pool_backfill_gpu')}={aside} leaves none of {devices} GPUs for nightly runs",
            remedy="set a smaller number, or unset it: backfills then use the GPUs that nightly runs leave free",
        )
    found = [
        Pool(name=CPU, slots=here.pool_cpu or USUAL_CORES, description="Cores for Ratchet's stages"),
        Pool(name=GPU, slots=devices - aside, description="GPUs for Ratchet's stages"),
        Pool(
            name=BACKFILL,
            slots=here.pool_backfill or here.pool_cpu or USUAL_CORES,
            description="Cores for the stages of backfills",
        ),
    ]
    if aside:
        found.append(Pool(name=BACKFILL_GPU, slots=aside, description="GPUs for the stages of backfills"))
    return {pool.name: pool for pool in found}


def share(resources: Resources) -> dict[str, Any]:
    """The pool of a stage, its slots there, and its queue. A stage that asks for more than the pool has takes all.

    Only a stage with GPUs names a queue, for Celery's workers; the others use Airflow's default queue, which each
    installation names itself. Executors without queues ignore it.
    """
    pool, wanted = (pools()[GPU], resources.gpus) if resources.gpus else (pools()[CPU], math.ceil(resources.cpus))
    queue = {"queue": GPU_QUEUE} if resources.gpus else {}
    return {"pool": pool.name, "pool_slots": min(wanted, pool.slots), "priority_weight": NIGHTLY_WEIGHT, **queue}


def yield_to_nights(task_instance: Any, dag_run: Any) -> None:
    """Give a task of a backfill lower priority than nightly runs, and the pool of backfills if there is one."""
    if dag_run is None or dag_run.run_type != "backfill":
        return
    own = pools().get({CPU: BACKFILL, GPU: BACKFILL_GPU}.get(task_instance.pool, ""))
    if own is not None:
        task_instance.pool, task_instance.pool_slots = own.name, min(task_instance.pool_slots, own.slots)
    if task_instance.pool in pools():
        task_instance.priority_weight = max(1, task_instance.priority_weight // NIGHTLY_WEIGHT)


def to_write(there: Mapping[str, int]) -> list[Pool]:
    """The pools that a set-up writes: those that are missing, and those whose slots a person has set otherwise.

    there: the slots of Airflow's pools by name. What an admin has edited stays, unless a setting names that pool.
    """
    given = environment().pools_given
    return [
        pool
        for pool in pools().values()
        if pool.name not in there or (pool.name in given and there[pool.name] != pool.slots)
    ]


def given_pools(settings: Mapping[str, object]) -> str:
    """The pools whose slots a person has set, with commas: for RATCHET_POOLS_GIVEN. settings: values by field."""
    return ",".join(pool for field, pool in POOLS.items() if settings.get(field))


def _listed_devices() -> int:
    """The devices that RATCHET_GPUS lists; 0 where it is unset. The driver is not asked."""
    from ratchet.runners.devices import host_devices

    return len(host_devices().names) if environment().gpus is not None else 0
