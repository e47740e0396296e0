"""`ratchet status`: prints the state of the servers of the embedded set-up, in any folder."""

import argparse
import json
from pathlib import Path

from local.supervision import processes
from local.supervision.state import Servers, ServerState, read
from ratchet.checkout import ROOT
from ratchet.contracts.exits import ExitCode

_HOMES = tuple(ROOT / ".ratchet" / name for name in ("local", "demo"))
_HEADINGS = ("server", "state", "since (UTC)", "restarts", "address", "last cause")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument(
        "--home", type=Path, help="the folder of one set-up (default: those of `make serve` and `make demo`)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON: a list of set-ups with their servers")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    homes = [options.home] if options.home else list(_HOMES)
    known = {home: state for home in homes if (state := read(home)) is not None}
    if options.json:
        print(json.dumps([_document(home, state) for home, state in known.items()], indent=2))
    else:
        for home, state in known.items():
            _show(home, state)
        if not known:
            places = " or ".join(map(str, homes))
            print(f"nothing was started in {places}; `make serve` starts the servers, `make demo` the example")
    started = [state for state in known.values() if not _is_stopped(state)]
    fine = bool(started) and all(
        processes.is_alive(state.supervisor) and all(server.state in {"running", "done"} for server in state.servers)
        for state in started
    )
    return ExitCode.DONE if fine else ExitCode.UNAVAILABLE


def _show(home: Path, state: Servers) -> None:
    supervised = processes.is_alive(state.supervisor)
    if _is_stopped(state):
        print(f"{home}: stopped")
        return
    print(
        f"{home}:"
        if supervised
        else f"{home}: THE SUPERVISOR IS GONE; run `make serve` or `make demo` to start all servers again"
    )
    rows = [
        (
            server.name,
            _state_now(server, supervised=supervised),
            f"{server.since:%Y-%m-%d %H:%M:%S}",
            str(server.restarts),
            server.address or "-",
            server.cause or "-",
        )
        for server in state.servers
        if not (server.once and server.state == "done")
    ]
    widths = [max(len(row[column]) for row in (_HEADINGS, *rows)) for column in range(len(_HEADINGS) - 1)]
    for row in (_HEADINGS, *rows):
        print("  " + "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]))
    for server in state.servers:
        if server.state == "given up":
            print(f"  {server.name} is given up: read {server.log}; `make serve` or `make demo` retries")


def _document(home: Path, state: Servers) -> dict[str, object]:
    supervised = processes.is_alive(state.supervisor)
    servers = [
        {**server.model_dump(mode="json"), "state": _state_now(server, supervised=supervised)}
        for server in state.servers
    ]
    return {"home": str(home), "supervised": supervised, "servers": servers}


def _state_now(server: ServerState, *, supervised: bool) -> str:
    """The state now, also if the supervisor was killed and could not write it."""
    if supervised or server.process is None:
        return server.state
    return "unsupervised" if processes.is_alive(server.process) else "dead"


def _is_stopped(state: Servers) -> bool:
    """Whether `stop` stopped the servers."""
    return not processes.is_alive(state.supervisor) and all(server.state == "stopped" for server in state.servers)
