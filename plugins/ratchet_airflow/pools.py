"""Pools: how many cores and GPUs all runs may use at the same time.

Ratchet creates them, so that no task waits for a pool that does not exist. A slot of `ratchet_cpu` and of
`ratchet_backfill` is a core, a slot of `ratchet_gpu` a device: a stage takes as many as its resources say. Devices that
RATCHET_POOL_BACKFILL_GPU sets aside are slots of `ratchet_backfill_gpu` and not of `ratchet_gpu`: a device is promised
once, or a stage would find it taken.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.stages import Resources

CPU, GPU, BACKFILL, BACKFILL_GPU = "ratchet_cpu", "ratchet_gpu", "ratchet_backfill", "ratchet_backfill_gpu"
GPU_QUEUE = "gpu"
NIGHTLY_WEIGHT = 10
"""The priority weight of a task; a task of a backfill has a tenth of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool of Airflow. slots: their number, which RATCHET_POOL_<KIND> overrides."""

    name: str
    slots: int
    description: str


@cache
def pools() -> Mapping[str, Pool]:
    """The pools by name. Raises ConfigurationError for a setting that is not a number above 0."""
    cores = os.cpu_count() or 1
    devices, aside = _slots("GPU", max(1, _devices())), _slots("BACKFILL_GPU", 0)
    if aside >= devices:
        raise ConfigurationError(
            f"RATCHET_POOL_BACKFILL_GPU={aside} leaves none of {devices} GPUs for nightly runs",
            remedy="set a smaller number, or unset it: backfills then use the GPUs that nightly runs leave free",
        )
    found = [
        Pool(name=CPU, slots=_slots("CPU", cores), description="Cores for Ratchet's stages"),
        Pool(name=GPU, slots=devices - aside, description="GPUs for Ratchet's stages"),
        Pool(name=BACKFILL, slots=_slots("BACKFILL", cores), description="Cores for the stages of backfills"),
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


def update_pools() -> None:
    """Create or update Airflow's pools. Needs Airflow's database, so only the scheduler and the set-up may call it."""
    from airflow.models.pool import Pool as Row

    for pool in pools().values():
        Row.create_or_update_pool(pool.name, pool.slots, pool.description, include_deferred=False)


def _slots(kind: str, default: int) -> int:
    name = f"RATCHET_POOL_{kind}"
    given = os.environ.get(name)
    if not given:
        return default
    if not given.isdigit() or int(given) == 0:
        raise ConfigurationError(f"{name}={given!r} is not a number of slots", remedy="set a whole number above 0")
    return int(given)


def _devices() -> int:
    from ratchet.runners.devices import host_devices

    return len(host_devices().names)
