"""The ports of the embedded set-up on 127.0.0.1."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path

from ratchet.contracts.errors import Unavailable


def chosen(file: Path, preferred: Mapping[str, int]) -> dict[str, int]:
    """The ports by name, as the file has them. Without it: the preferred ones if they are free, and they are kept."""
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({name: _free_port(port) for name, port in preferred.items()}), encoding="utf-8")
    found: dict[str, int] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _free_port(wanted: int) -> int:
    """The wanted port if it is free, else any free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise Unavailable("no free port on 127.0.0.1", remedy="end a process that listens there")
