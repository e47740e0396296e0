"""What the filter permits: environment variables that begin with ENGINE_FILTER_."""

import difflib
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.quantities import Memory

PREFIX = "ENGINE_FILTER_"
_RESERVED_NETWORKS = frozenset({"host", "default", "none"})

Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}$")]
_PART = "[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
Repository = Annotated[
    str, StringConstraints(pattern=rf"^(?:{_PART}(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*$", max_length=200)
]


class Policy(BaseModel):
    """What this filter permits, and where it listens. Lists are words with commas.

    listen: `address:port`. images: repositories without a tag. networks: those that a container may join, besides none.
    cache_volume: the one named volume, none if empty. installation: the owner of the containers. max_containers: how
    many exist at the same time; the other limits are those of one container.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    listen: str = "0.0.0.0:2375"
    socket: str = "/var/run/docker.sock"
    installation: Name
    images: tuple[Repository, ...] = Field(("ratchet-stage",), min_length=1)
    networks: tuple[Name, ...] = ()
    cache_volume: Name | None = None
    max_memory: Memory = 64 << 30
    max_shm: Memory = 16 << 30
    max_cpus: float = Field(64, gt=0, le=1024)
    max_pids: int = Field(4096, ge=16, le=65_536)
    max_containers: int = Field(64, ge=1, le=10_000)

    @field_validator("images", "networks", mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value

    @field_validator("cache_volume", mode="before")
    @classmethod
    def _none_if_empty(cls, value: object) -> object:
        return value or None

    @field_validator("networks")
    @classmethod
    def _no_host(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if found := _RESERVED_NETWORKS.intersection(value):
            raise ValueError(f"{min(found)!r} cannot be listed; name networks made for stages")
        return value

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        found = re.fullmatch(r"([0-9a-zA-Z.-]+):(\d{1,5})", value)
        if not found or int(found.group(2)) > 65_535:  # noqa: PLR2004 - the last port
            raise ValueError("write it like 0.0.0.0:2375")
        return value

    @field_validator("socket")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not PurePosixPath(value).is_absolute():
            raise ValueError("name the engine's socket by its full path")
        return value

    @property
    def host(self) -> str:
        """The address that it listens on."""
        return self.listen.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The port that it listens on; 0 is any free one."""
        return int(self.listen.rpartition(":")[2])

    @classmethod
    def load(cls, environment: Mapping[str, str]) -> Self:
        """From an environment. Raises ConfigurationError, one line, for an unknown name or a bad value."""
        given = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
        known = {PREFIX + name.upper(): name for name in cls.model_fields}
        for name in sorted(set(given) - set(known)):
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigurationError(
                f"{name} is not a setting of the engine filter; allowed: {', '.join(known)}",
                remedy=f"did you mean {near[0]}?" if near else "remove it",
            )
        try:
            return cls.model_validate({known[name]: value for name, value in given.items()})
        except ValidationError as error:
            first = error.errors()[0]
            name = PREFIX + str(first["loc"][0]).upper()
            said = first["msg"].removeprefix("Value error, ")
            shown = f"{name} = {given[name]!r}" if name in given else name
            raise ConfigurationError(f"{shown}: {said}", remedy=f"set {name} for the engine filter") from None
