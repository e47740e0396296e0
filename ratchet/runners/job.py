"""What a runner runs: one stage, its limits, and what it may see."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.labels import STAGE_USER
from ratchet.contracts.stages import Resources

REQUEST = "request.json"
"""Name of the request file in the job's folder; its path is in RATCHET_REQUEST."""
SECRETS = "secrets"
"""Name of the folder of secrets in the job's folder; its path is in RATCHET_SECRETS."""
CACHE = "/var/cache/ratchet"
"""Where a container finds the cache volume; the same path is in RATCHET_CACHE."""

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")
_USER = re.compile(r"^\d{1,10}:\d{1,10}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of the host that a container sees under the same absolute path."""

    path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt of one stage.

    name: for people; need not be unique. request: the StageRequest as JSON. image: tag or digest; None for processes.
    secrets: file name to content, readable by the job alone, in the folder that RATCHET_SECRETS names; never in the
    environment. env: plain settings, visible to everyone who may inspect the container.
    labels: what `Runner.find` looks for. network: none, bridge, host, or the name of a network of the engine.
    cache: the name of a volume that many jobs share, for data that each of them can do without.
    timeout_s, grace_s: seconds until the notice to stop, and from the notice to the kill.
    user: `uid:gid` inside a container, never root. command: instead of `ratchet stage REQUEST`.
    Raises ConfigurationError for an invalid name, user, secret, network, volume or mount.
    """

    name: str
    request: bytes
    image: str | None = None
    resources: Resources = field(default_factory=Resources)
    labels: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict)
    network: str = "none"
    cache: str | None = None
    timeout_s: float = 3600
    grace_s: float = 30
    user: str = f"{STAGE_USER}:{STAGE_USER}"
    command: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        named = [("job", self.name), ("network", self.network), *(("secret", name) for name in self.secrets)]
        if self.cache is not None:
            named.append(("volume", self.cache))
        for what, name in named:
            if not _NAME.fullmatch(name):
                raise ConfigurationError(
                    f"{what} name {name!r} is not a plain name",
                    remedy="use letters, digits, _ . and -, at most 100 of them",
                )
        if not _USER.fullmatch(self.user) or int(self.user.split(":")[0]) == 0:
            raise ConfigurationError(
                f"user {self.user!r} cannot run a stage; allowed: uid:gid in numbers, not root",
                remedy=f"give the store to a user other than root (`chown -R {STAGE_USER}:{STAGE_USER} STORE`)",
            )
        for mount in self.mounts:
            path = PurePosixPath(mount.path)
            if (
                not path.is_absolute()
                or str(path) != mount.path
                or mount.path.startswith("//")
                or ".." in path.parts
                or len(path.parts) == 1
            ):
                raise ConfigurationError(
                    f"mount {mount.path!r} is not a plain absolute path below /",
                    remedy="name the folder by its full path",
                )

    def environment(self, folder: str, *, cpus: int | None) -> dict[str, str]:
        """The stage's environment, with its files in `folder` on a machine with `cpus` cores, if known.

        Threads follow the CPU quota, not the machine: more of them would only be throttled.
        """
        wanted = max(1, math.ceil(self.resources.cpus))
        threads = str(min(wanted, cpus) if cpus else wanted)
        return {
            "OMP_NUM_THREADS": threads,
            # Threads that wait by spinning hold the core that another thread needs: on a busy machine, or under a
            # quota, training takes several times as long. NumPy's threads spun for a tenth of a second whenever a
            # process started; its OpenBLAS has a setting for how long.
            "OMP_WAIT_POLICY": "PASSIVE",
            "OPENBLAS_THREAD_TIMEOUT": "4",
            "MKL_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "POLARS_MAX_THREADS": threads,
            "RATCHET_REQUEST": f"{folder}/{REQUEST}",
            "RATCHET_SECRETS": f"{folder}/{SECRETS}",
            **self.env,
        }
