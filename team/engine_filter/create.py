"""The one shape of container that may be created: that of DockerRunner, field by field, and nothing else.

A change here violates the promise of the team set-up when a body that parses could give a container the host's files,
devices, namespaces or network, a capability, root, or another volume than its own two.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_pascal

from ratchet.contracts.labels import MARK, Label
from team.engine_filter.policy import Policy
from team.engine_filter.refusal import Refusal
from team.engine_filter.strict_json import parse

RUN_FOLDER = "/run"
CACHE_FOLDER = "/var/cache/ratchet"

_CPU_PERIOD_US = 100_000
_ID_LIMIT = 1 << 31
_LOG_LIMIT = 1 << 30
_ENV = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,127})=([^\x00]*)", re.DOTALL)
_FORBIDDEN_ENV = re.compile(r"(LD_|PYTHON|NVIDIA_|GCONV_|GLIBC_).*|PATH|BASH_ENV|ENV|IFS", re.DOTALL)
_LABEL = re.compile(r"ratchet(\.[a-z0-9_-]{1,60}){0,4}")
_TMPFS = re.compile(r"rw,nosuid,nodev,noexec,mode=1777,size=([1-9][0-9]{0,18})")
_LOG_SIZE = re.compile(r"([1-9][0-9]{0,9})([kmg])")

Word = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*$")]
LabelValue = Annotated[str, StringConstraints(max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$")]
Labels = Annotated[dict[str, LabelValue], Field(max_length=64)]
Device = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}$")]


class _Part(BaseModel):
    """By the engine's names only; exact types; nothing unknown."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        alias_generator=to_pascal,
        validate_by_alias=True,
        validate_by_name=False,
    )


class VolumeOptions(_Part):
    """Of the container's own volume: no driver, no options of a driver."""

    no_copy: Literal[True]
    labels: Labels


class OwnVolume(_Part):
    """The anonymous volume that the container's files are put into, and that goes with it."""

    type: Literal["volume"]
    target: Literal["/run"]
    volume_options: VolumeOptions


class CacheVolume(_Part):
    """The installation's cache. Which name it may have is checked against the policy."""

    type: Literal["volume"]
    source: Word
    target: Literal["/var/cache/ratchet"]


class Ulimit(_Part):
    """No core dumps."""

    name: Literal["core"]
    soft: Literal[0]
    hard: Literal[0]


class DeviceRequest(_Part):
    """GPUs by name; never a count, so that none is had without being named in the label."""

    device_ids: Annotated[list[Device], Field(alias="DeviceIDs", min_length=1, max_length=64)]
    capabilities: list[list[Literal["gpu"]]]

    @field_validator("capabilities")
    @classmethod
    def _only_gpu(cls, value: list[list[str]]) -> list[list[str]]:
        if value != [["gpu"]]:
            raise ValueError('allowed: [["gpu"]]')
        return value


class LogSizes(_Part):
    """How much of a log the engine keeps."""

    max_size: Annotated[str, Field(alias="max-size")]
    max_file: Annotated[str, Field(alias="max-file", pattern=r"^[1-5]$")]

    @field_validator("max_size")
    @classmethod
    def _check_bounds(cls, value: str) -> str:
        found = _LOG_SIZE.fullmatch(value)
        if not found or int(found.group(1)) << {"k": 10, "m": 20, "g": 30}[found.group(2)] > _LOG_LIMIT:
            raise ValueError("allowed: a size like 512m, at most 1g")
        return value


class LogConfig(_Part):
    """Logs are files of the engine's, of bounded size; never sent anywhere."""

    type: Literal["json-file"]
    config: LogSizes


class HostConfig(_Part):
    """What the host gives the container."""

    init: Literal[True]
    readonly_rootfs: Literal[True]
    cap_drop: list[Literal["ALL"]] = Field(min_length=1, max_length=1)
    security_opt: list[Literal["no-new-privileges"]] = Field(min_length=1, max_length=1)
    ipc_mode: Literal["private"]
    network_mode: Word
    memory: int = Field(gt=0)
    memory_swap: int = Field(gt=0)
    cpu_period: Literal[100_000]
    cpu_quota: int = Field(ge=1000)
    pids_limit: int = Field(gt=0)
    shm_size: int = Field(gt=0)
    ulimits: list[Ulimit] = Field(min_length=1, max_length=1)
    tmpfs: dict[Literal["/tmp"], Word] = Field(min_length=1, max_length=1)  # noqa: S108 - the container's own
    mounts: list[OwnVolume | CacheVolume] = Field(min_length=1, max_length=2)
    device_requests: list[DeviceRequest] = Field(max_length=1)
    log_config: LogConfig

    @field_validator("tmpfs")
    @classmethod
    def _plain_tmpfs(cls, value: dict[str, str]) -> dict[str, str]:
        for options in value.values():
            if not _TMPFS.fullmatch(options):
                raise ValueError("allowed: rw,nosuid,nodev,noexec,mode=1777,size=BYTES")
        return value

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.memory_swap != self.memory:
            raise ValueError("MemorySwap has to equal Memory: no swap")
        size = _TMPFS.fullmatch(next(iter(self.tmpfs.values())))
        if not size or int(size.group(1)) > self.memory:
            raise ValueError("the size of /tmp has to be at most Memory")
        if [type(mount) for mount in self.mounts] not in ([OwnVolume], [OwnVolume, CacheVolume]):
            raise ValueError(f"Mounts: allowed: the volume at {RUN_FOLDER}, then the cache at {CACHE_FOLDER}")
        return self


class Container(_Part):
    """The body of `POST /containers/create`."""

    image: Annotated[str, StringConstraints(min_length=1, max_length=300)]
    entrypoint: Annotated[list[Word], Field(min_length=1, max_length=1)]
    cmd: Annotated[list[Word], Field(max_length=256)]
    user: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,9}:[1-9][0-9]{0,9}$")]
    working_dir: Literal["/tmp"]  # noqa: S108 - the container's own
    env: Annotated[list[Word], Field(max_length=128)]
    labels: Labels
    stop_signal: Literal["SIGTERM"]
    stop_timeout: int = Field(ge=0, le=7 * 86_400)
    host_config: HostConfig

    @field_validator("user")
    @classmethod
    def _below_the_limit(cls, value: str) -> str:
        if any(int(part) >= _ID_LIMIT for part in value.split(":")):
            raise ValueError("allowed: uid:gid in numbers below 2147483648, neither of them 0")
        return value

    @field_validator("env")
    @classmethod
    def _plain_names(cls, value: list[str]) -> list[str]:
        seen: set[str] = set()
        for entry in value:
            found = _ENV.fullmatch(entry)
            if not found:
                raise ValueError("allowed: NAME=value")
            name = found.group(1)
            if _FORBIDDEN_ENV.fullmatch(name) or name in seen:
                raise ValueError(
                    f"{name}: allowed: each name once, and none that steers the loader, Python or a driver"
                )
            seen.add(name)
        return value

    @field_validator("labels")
    @classmethod
    def _ours(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not _LABEL.fullmatch(name):
                raise ValueError(f"{name[:60]!r}: allowed: names like ratchet.run")
        if Label.INSTALLATION in value:
            raise ValueError(f"{Label.INSTALLATION}: the filter sets it")
        if not MARK.items() <= value.items():
            raise ValueError(f"allowed: only with {dict(MARK)}")
        return value

    @model_validator(mode="after")
    def _one_set_of_labels(self) -> Self:
        if any(
            isinstance(mount, OwnVolume) and mount.volume_options.labels != self.labels
            for mount in self.host_config.mounts
        ):
            raise ValueError("HostConfig.Mounts: the volume's labels have to be the container's")
        return self


def read(body: bytes, policy: Policy) -> Container:
    """The container that a body asks for. Raises Refusal, naming the first key that is not as it has to be."""
    try:
        wanted = Container.model_validate(parse(body, "the body of create"))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part)[:60] for part in first["loc"] if str(part) not in {"OwnVolume", "CacheVolume"})
        what = f"create: {where or 'the body'}"
        said = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            raise Refusal(what, "only the keys that Ratchet's runner sets") from None
        raise Refusal(what, said.removeprefix("allowed: ")) from None
    _within(wanted.host_config, policy)
    return wanted


def _within(host: HostConfig, policy: Policy) -> None:
    if host.network_mode not in {"none", *policy.networks}:
        raise Refusal("create: HostConfig.NetworkMode", ", ".join(("none", *policy.networks)))
    for mount in host.mounts:
        if isinstance(mount, CacheVolume) and (policy.cache_volume is None or mount.source != policy.cache_volume):
            raise Refusal("create: HostConfig.Mounts.Source", policy.cache_volume or "no named volume")
    limits = (
        ("Memory", host.memory, policy.max_memory),
        ("ShmSize", host.shm_size, policy.max_shm),
        ("CpuQuota", host.cpu_quota, round(policy.max_cpus * _CPU_PERIOD_US)),
        ("PidsLimit", host.pids_limit, policy.max_pids),
    )
    for name, value, most in limits:
        if value > most:
            raise Refusal(f"create: HostConfig.{name} = {value}", f"at most {most}")


def body(wanted: Container, image_id: str, policy: Policy) -> dict[str, Any]:
    """The body for the engine: only the parsed container, with the image's id and the installation's label."""
    rebuilt = wanted.model_dump(by_alias=True)
    labels = {**wanted.labels, Label.INSTALLATION: policy.installation}
    rebuilt["Image"], rebuilt["Labels"] = image_id, labels
    rebuilt["HostConfig"]["Mounts"][0]["VolumeOptions"]["Labels"] = labels
    return rebuilt
