"""Which GPUs a host has, which are taken, and which ones a job gets.

A device belongs to the container that carries it in a label and has not ended: the engine is the only record, so that
a crash frees the device with the container, and there is no lease to forget.
"""

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.contracts.errors import ConfigurationError, Unavailable
from tasks.runners.job import Job

if TYPE_CHECKING:
    import docker  # not at run time: who only counts devices, as each parse of a DAG file may, needs no engine

GPUS_LABEL = "ratchet.gpus"
SETTING = "RATCHET_GPUS"
LOCK = Path("/tmp/ratchet-gpus.lock")  # noqa: S108 - one for the whole host, whoever submits; it holds nothing
"""Held from the choice of devices until the container that has them runs."""

_FAKE = "fake:"
_LOCK_S = 120.0
_ENDED = frozenset({"exited", "dead", "removing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Some GPUs by index or UUID. fake: they are only counted, for tests on machines without any."""

    names: tuple[str, ...] = ()
    fake: bool = False

    @property
    def listed(self) -> str:
        """Their names in one word."""
        return ",".join(self.names)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """In the words of the engine's API."""
        real = self.names and not self.fake
        return [{"DeviceIDs": list(self.names), "Capabilities": [["gpu"]]}] if real else []

    @property
    def environment(self) -> dict[str, str]:
        """What the job is told: its devices by the host's names. Inside of the container they count from 0."""
        return {"RATCHET_GPU_DEVICES": self.listed} if self.names else {}


def host_devices() -> Devices:
    """What RATCHET_GPUS lists (`0,1`, or UUIDs), or nvidia-smi where it is unset; none without either.

    Raises ConfigurationError for a list that is none.
    """
    setting = os.environ.get(SETTING)
    if setting is None:
        return Devices(names=_listed_by_driver())
    names = tuple(name.strip() for name in setting.removeprefix(_FAKE).split(",") if name.strip())
    if len(set(names)) < len(names) or any(not name.replace("-", "").isalnum() for name in names):
        raise ConfigurationError(
            f"{SETTING} = {setting!r} is no list of devices; allowed: indices or UUIDs with commas, each once",
            remedy=f"set it like {SETTING}=0,1, or unset it where nvidia-smi is installed",
        )
    return Devices(names=names, fake=setting.startswith(_FAKE))


def _listed_by_driver() -> tuple[str, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        listed = subprocess.run((program, "-L"), capture_output=True, text=True, check=True, timeout=30).stdout  # noqa: S603 - the driver's own
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.split(":")[0].removeprefix("GPU ") for line in listed.splitlines() if line.startswith("GPU "))


@contextmanager
def claim(api: "docker.APIClient", job: Job) -> Iterator[Devices]:
    """The devices that a job gets. In the block its container has to be created with them, and started.

    Raises Unavailable if too few are free, saying who holds the others; ConfigurationError if the host has too few.
    """
    wanted = job.resources.gpus
    if not wanted:
        yield Devices()
        return
    there = host_devices()
    if len(there.names) < wanted:
        has = f"has {len(there.names)} ({there.listed})" if there.names else "has none"
        raise ConfigurationError(
            f"{job.name} wants {_count(wanted)}, and this host {has}",
            remedy=f"lower resources.<stage>.gpus, or list the devices in {SETTING} if nvidia-smi cannot",
        )
    with _locked():
        held = _holders(api)
        free = [name for name in there.names if name not in held]
        if len(free) < wanted:
            holders = "; ".join(f"{name} by {held[name]}" for name in there.names if name in held)
            raise Unavailable(
                f"{job.name} wants {_count(wanted)}, and {len(free)} of {len(there.names)} are free; held: {holders}",
                remedy="it is tried again; give fewer runs the GPU pool at once if this is usual",
            )
        yield Devices(names=tuple(free[:wanted]), fake=there.fake)


def _holders(api: "docker.APIClient") -> dict[str, str]:
    """Who has each device. What was created and not started has none: its submitter died, for the lock is ours."""
    holders: dict[str, str] = {}
    for container in api.containers(all=True, filters={"label": [GPUS_LABEL]}):
        if container["State"] in {*_ENDED, "created"}:
            continue
        labels: Mapping[str, str] = container["Labels"]
        words = (labels.get("ratchet.pipeline"), labels.get("ratchet.stage"), labels.get("ratchet.run"))
        who = " ".join(word for word in words if word) or "container"
        for name in labels[GPUS_LABEL].split(","):
            holders[name] = f"{who} ({container['Id'][:12]})"
    return holders


@contextmanager
def _locked() -> Iterator[None]:
    try:
        file = os.open(LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        file = os.open(LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"somebody has been choosing GPUs for {_LOCK_S:.0f} s and does not end",
                        remedy=f"see who holds {LOCK} (`fuser {LOCK}`)",
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(file)


def _count(wanted: int) -> str:
    return f"{wanted} GPU{'s' * (wanted > 1)}"
