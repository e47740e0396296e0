"""Whether the Docker engine of this host can run stages: its answer, version, clock, disk, the image, the GPUs."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.contracts.diagnosis import Diagnosis
from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import RatchetError
from ratchet.runners.choice import stage_image
from ratchet.runners.devices import host_devices, why_silent
from ratchet.runners.docker import DockerRunner
from ratchet.runners.engine import connect, engine_available
from ratchet.store.diagnosis import diagnose_clock, diagnose_disk

if TYPE_CHECKING:
    import docker

_API = (1, 41)
_REMEDY = "start it (scripts/engine.sh), or join its group"
_WITHOUT = f"; without one set {variable('runner')}=process: stages are processes then, without their limits"


def diagnose_runner() -> Iterator[Diagnosis]:
    """What stages need of this host. Without an engine only processes run them."""
    if environment().runner == "process":
        yield Diagnosis(name="engine", well=True, text=f"none is needed: {variable('runner')} is process")
    else:
        (engine,) = diagnose_engine()
        yield engine if engine.well else replace(engine, text=engine.text + _WITHOUT)
        if engine.well:
            with connect() as api:
                yield from diagnose_engine_host(api)
            yield from _images()
    yield _devices()


def diagnose_engine() -> Iterator[Diagnosis]:
    """Whether the engine answers, and speaks an API that is new enough."""
    cause = engine_available()
    if cause is not None:
        yield Diagnosis(name="engine", well=False, text=f"the Docker engine does not answer: {cause}; {_REMEDY}")
        return
    with connect() as api:
        version: str = api.version()["ApiVersion"]
    if tuple(int(part) for part in version.split(".")) < _API:
        needed = ".".join(map(str, _API))
        text = f"the Docker engine has API {version}; upgrade it to {needed} (Docker 20.10) or later"
        yield Diagnosis(name="engine", well=False, text=text)
    else:
        yield Diagnosis(name="engine", well=True, text=f"the Docker engine answers (API {version})")


def diagnose_engine_host(api: "docker.APIClient") -> Iterator[Diagnosis]:
    """The clock of the engine's host, and its disk where it is this host."""
    before = time.time()
    info = api.info()
    theirs = datetime.fromisoformat(info["SystemTime"]).timestamp()  # in the zone of its host, which it names
    yield diagnose_clock("the engine's clock", theirs, since=before, until=time.time())
    folder = info.get("DockerRootDir")  # the engine's filter of the team set-up does not say it
    if folder and Path(folder).is_dir():  # else the engine is elsewhere
        yield diagnose_disk(Path(folder), remedy="free some with `docker system prune`")


def _images() -> Iterator[Diagnosis]:
    for gpu in (False, True):
        name = stage_image(gpu=gpu)
        if gpu and (name == stage_image(gpu=False) or not host_devices().names):
            continue
        try:
            identity = DockerRunner().image_id(name)
        except RatchetError as error:
            yield Diagnosis(name="image", well=False, text=f"{error.cause}; {error.remedy}")
        else:
            yield Diagnosis(name="image", well=True, text=f"stages run in {name} ({identity[:19]})")


def _devices() -> Diagnosis:
    try:
        found = host_devices()
    except RatchetError as error:
        return Diagnosis(name="gpus", well=False, text=f"{error.cause}; {error.remedy}")
    if why := why_silent():
        text = f"nvidia-smi of this host lists no GPUs: {why}; run it; after an upgrade of the driver restart the host"
        return Diagnosis(name="gpus", well=None, text=text)
    wanted = environment().pool_gpu or 0
    if wanted > len(found.names):
        text = f"{variable('pool_gpu')} is {wanted}, and this host has {len(found.names)}; lower it, or list more GPUs"
        return Diagnosis(name="gpus", well=None, text=f"{text} on the other hosts of the queue")
    return Diagnosis(name="gpus", well=True, text=found.listed or "this host has none")
