"""The state of the servers, in a small file that stays if the supervisor dies."""

import os
import secrets
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact

FILE = "servers.json"
State = Literal["waiting", "starting", "running", "done", "restarting", "given up", "stopped"]


class Identity(Document):
    """A process. Its start time distinguishes it from a later process with the same number."""

    pid: int
    born: float = Field(description="The start time in seconds since 1970, as the system reports it.")


class ServerState(Document):
    """The state of one server."""

    name: str
    state: State
    since: datetime = Field(description="When this state began, in UTC.")
    restarts: int = Field(0, description="The number of restarts.")
    process: Identity | None = None
    cause: str = Field("", description="Why it ended last.")
    exit_code: int | None = Field(None, description="Its last exit code; 128 + the signal if a signal ended it.")
    log: str = Field(description="The path of its log.")
    address: str = ""
    once: bool = False


class Servers(Document):
    """A supervisor and its servers."""

    supervisor: Identity
    servers: tuple[ServerState, ...]


def write(home: Path, state: Servers) -> None:
    """Replace the state file of a home, durably and in one step."""
    new = home / f".{FILE}.{secrets.token_hex(4)}"
    with new.open("w", encoding="utf-8") as file:
        file.write(state.model_dump_json(indent=1))
        file.flush()
        os.fsync(file.fileno())
    new.replace(home / FILE)
    folder = os.open(home, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(home: Path) -> Servers | None:
    """Read the last state of a home; None if nothing was started there. Raises CorruptArtifact."""
    file = home / FILE
    try:
        return Servers.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise CorruptArtifact(f"{file} is not the state file of a supervisor", remedy="delete it") from error
