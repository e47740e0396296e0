"""The state of the servers, in one small file that outlives the supervisor."""

import os
import secrets
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact

FILE = "servers.json"
State = Literal["waiting", "starting", "running", "done", "restarting", "given up", "stopped"]


class Identity(Document):
    """A process. Its start time tells it from a later process with the same number.

    born: seconds since 1970, as the system reports it.
    """

    pid: int
    born: float


class ServerState(Document):
    """The state of one server.

    restarts: how often it was restarted. cause: why it ended last, in words. exit_code: its last exit code; 128 + the
    signal if a signal ended it. since: when this state began, in UTC.
    """

    name: str
    state: State
    since: datetime
    restarts: int = 0
    process: Identity | None = None
    cause: str = ""
    exit_code: int | None = None
    log: str
    address: str = ""
    once: bool = False


class Servers(Document):
    """A supervisor and its servers."""

    supervisor: Identity
    servers: tuple[ServerState, ...]


def write(home: Path, state: Servers) -> None:
    """Replace the file of a home, durably and in one step."""
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
    """The last state of a home; None if nothing was ever started there. Raises CorruptArtifact."""
    file = home / FILE
    try:
        return Servers.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise CorruptArtifact(f"{file} is not the state file of a supervisor", remedy="delete it") from error
