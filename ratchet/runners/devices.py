"""Which GPUs a host has, which are taken, and which ones a job gets.

A device belongs to the container that names it in a label and has not ended. The engine is the only record, so that a
crash frees the device with the container, and no lease can be left behind. The engine also decides between submitters,
which may share nothing else: a container is created with its devices first, and then started only if, of the containers
with one of these devices, it is the oldest and none runs. Of two such containers the second always sees the first, so
they never both start.

A change here violates the promise of the project when a container is started without a look that came after its
creation, or when one that was created and not started is passed over while it could still start.
"""

import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ratchet.contracts.environment import environment, variable
from ratchet.contracts.errors import ConfigurationError, Unavailable
from ratchet.contracts.labels import Label
from ratchet.runners.engine_time import seconds_of
from ratchet.runners.job import Job

if TYPE_CHECKING:
    import docker  # not at run time: to count devices, as each parse of a DAG file may, no engine is needed

SETTING = variable("gpus")
_FAKE = "fake:"
_NO_DEVICES = "No devices were found"
_LONGEST = 200
"""Characters that are shown of what the driver says."""
_PAUSE_S = 0.05
_PATIENCE_S = 30.0
"""How long to wait for containers that others have created and not started."""
_STALE_S = 120.0
"""Seconds, by the engine's clock, after which the submitter of a container that never started counts as dead."""
_ENDED = frozenset({"exited", "dead", "removing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Some GPUs by index or UUID. fake: they are only counted, for tests on machines without any."""

    names: tuple[str, ...] = ()
    fake: bool = False

    @property
    def listed(self) -> str:
        """Their names, with commas."""
        return ",".join(self.names)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """As the engine's API takes them."""
        real = self.names and not self.fake
        return [{"DeviceIDs": list(self.names), "Capabilities": [["gpu"]]}] if real else []

    @property
    def environment(self) -> dict[str, str]:
        """For the job: its devices by the host's names. Inside the container they count from 0."""
        return {variable("gpu_devices"): self.listed} if self.names else {}


class TooFewDevices(ConfigurationError):
    """This host has fewer devices than are wanted."""

    def __init__(self, cause: str, *, remedy: str, wanted: int) -> None:
        super().__init__(cause, remedy=remedy)
        self.wanted = wanted


def host_devices() -> Devices:
    """The devices that RATCHET_GPUS lists (`0,1`, or UUIDs), or nvidia-smi where it is unset; none without either.

    Raises ConfigurationError for a list that cannot be read.
    """
    setting = environment().gpus
    if setting is None:
        return Devices(names=_listed_by_driver())
    names = tuple(name.strip() for name in setting.removeprefix(_FAKE).split(",") if name.strip())
    if len(set(names)) < len(names) or any(not name.replace("-", "").isalnum() for name in names):
        raise ConfigurationError(
            f"{SETTING} = {setting!r} is no list of devices; allowed: indices or UUIDs with commas, each once",
            remedy=f"set it like {SETTING}=0,1, or unset it where nvidia-smi is installed",
        )
    return Devices(names=names, fake=setting.startswith(_FAKE))


def require_devices(wanted: int, name: str) -> Devices:
    """The devices of this host. name: of what needs them.

    Raises TooFewDevices if it has fewer than are wanted, and Unavailable if its driver does not say.
    """
    host = host_devices() if wanted else Devices()
    if len(host.names) < wanted:
        if why := why_silent():
            raise Unavailable(
                f"{name} needs {_count(wanted)}, and nvidia-smi of this host lists none: {why}",
                remedy="run nvidia-smi on this host; after an upgrade of the driver it may have to be restarted",
            )
        has = f"has {len(host.names)} ({host.listed})" if host.names else "has none"
        raise TooFewDevices(
            f"{name} needs {_count(wanted)}, and this host {has}",
            remedy=f"lower resources.<stage>.gpus, or list the devices in {SETTING} if nvidia-smi cannot",
            wanted=wanted,
        )
    return host


def _listed_by_driver() -> tuple[str, ...]:
    try:
        listed = _ask_driver()
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.split(":")[0].removeprefix("GPU ") for line in listed.splitlines() if line.startswith("GPU "))


def why_silent() -> str:
    """Why the driver does not list the devices, in a line; empty if it does, has none, is not there or not asked."""
    if environment().gpus is not None:
        return ""
    try:
        _ask_driver()
    except subprocess.CalledProcessError as error:
        said = " ".join(f"{error.stdout} {error.stderr}".split())
        return "" if _NO_DEVICES in said else said[:_LONGEST] or f"exit code {error.returncode}"
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return ""


def _ask_driver() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    return subprocess.run((program, "-L"), capture_output=True, text=True, check=True, timeout=30).stdout


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Claim:
    """A container that was created with devices and has not ended, in the order in which claims yield to each other."""

    created: int
    handle: str
    names: frozenset[str]
    started: bool
    holder: str


def claim(api: "docker.APIClient", job: Job, create: Callable[[Devices], str]) -> str:
    """The id of a container that `create` has made with the devices that the job gets, and that may be started.

    Raises Unavailable if too few are free, naming who holds the others; TooFewDevices if the host has too few.
    """
    wanted = job.resources.gpus
    if not wanted:
        return create(Devices())
    host = require_devices(wanted, job.name)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        claims = _claims(api, host.names)
        held = {name: one for one in claims for name in one.names}
        free = [name for name in host.names if name not in held]
        if len(free) >= wanted:
            handle = create(Devices(names=tuple(free[:wanted]), fake=host.fake))
            if _is_ours(api, handle, host.names):
                return handle
            _remove(api, handle)
        elif all(one.started for one in claims) or time.monotonic() > deadline:
            holders = "; ".join(
                f"{name} by {held[name].holder} ({held[name].handle[:12]})" for name in host.names if name in held
            )
            raise Unavailable(
                f"{job.name} needs {_count(wanted)}, and {len(free)} of {len(host.names)} are free; held: {holders}",
                remedy="wait for the next try; if this happens often, let fewer runs use the GPU pool at once",
            )
        else:
            time.sleep(_PAUSE_S)


def _is_ours(api: "docker.APIClient", handle: str, names: Collection[str]) -> bool:
    """Whether a created container has its devices to itself. Waits for younger containers to give way."""
    while True:
        claims = _claims(api, names)
        ours = next((one for one in claims if one.handle == handle), None)
        if ours is None:
            return False
        rivals = [one for one in claims if one.handle != handle and one.names & ours.names]
        if any(one.started or one < ours for one in rivals):
            return False
        if not rivals:
            return True
        time.sleep(_PAUSE_S)  # it looked before this one was created, and starts; or it sees this one, and gives way


def _claims(api: "docker.APIClient", names: Collection[str]) -> list[_Claim]:
    """The containers that hold some of these devices. A container that never started is removed after _STALE_S."""
    found = []
    for container in api.containers(all=True, filters={"label": [Label.GPUS]}):
        labels: Mapping[str, str] = container["Labels"]
        held = frozenset(labels[Label.GPUS].split(",")) & frozenset(names)
        if container["State"] in _ENDED or not held:
            continue
        run = filter(None, map(labels.get, (Label.PIPELINE, Label.STAGE, Label.RUN)))
        found.append(
            _Claim(
                created=container["Created"],
                handle=container["Id"],
                names=held,
                started=container["State"] != "created",
                holder=" ".join(run) or "container",
            )
        )
    waiting = [one for one in found if not one.started]
    if waiting:
        now = seconds_of(api.info()["SystemTime"])
        for one in waiting:
            if now - one.created > _STALE_S:
                _remove(api, one.handle)
                found.remove(one)
    return found


def _remove(api: "docker.APIClient", handle: str) -> None:
    from ratchet.runners.engine import remove_container  # which loads Docker's library

    remove_container(api, handle)


def _count(wanted: int) -> str:
    return f"{wanted} GPU{'s' * (wanted > 1)}"
