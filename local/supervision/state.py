"""The state of the servers, in one small file that outlives whoever wrote it."""

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
    """A process, told apart from a later one of the same number by its birth.

    born: seconds since 1970, as the system says it.
    """

    pid: int
    born: float


class ServerState(Document):
    """How one server stands.

    restarts: how often it was started again. cause: why it ended last, in words. exit_code: what it ended with then;
    128 + the signal if a signal ended it. since: when it came into this state, in UTC.
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
    """What a supervisor knows."""

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
    """What was last known in a home; None if nothing was ever started there. Raises CorruptArtifact."""
    file = home / FILE
    try:
        return Servers.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise CorruptArtifact(f"{file} is not what a supervisor writes", remedy="delete it") from error
