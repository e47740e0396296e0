"""`ratchet status`: how the servers of the embedded set-up stand."""

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
    parser.add_argument("--json", action="store_true", help="for programs: a list of set-ups with their servers")
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
            print(
                f"nothing was started in {places}; `make demo` shows the example, `make serve` starts the servers alone"
            )
    wanted = [state for state in known.values() if not _stopped(state)]
    fine = bool(wanted) and all(
        processes.alive(state.supervisor) and all(server.state in {"running", "done"} for server in state.servers)
        for state in wanted
    )
    return ExitCode.DONE if fine else ExitCode.UNAVAILABLE


def _show(home: Path, state: Servers) -> None:
    supervised = processes.alive(state.supervisor)
    if _stopped(state):
        print(f"{home}: stopped")
        return
    print(f"{home}:" if supervised else f"{home}: THE SUPERVISOR IS GONE; `make serve` or `make demo` starts all again")
    rows = [
        (
            server.name,
            _stands(server, supervised=supervised),
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
            print(f"  {server.name} is not started again: see {server.log}; `make serve` or `make demo` tries anew")


def _document(home: Path, state: Servers) -> dict[str, object]:
    supervised = processes.alive(state.supervisor)
    servers = [
        {**server.model_dump(mode="json"), "state": _stands(server, supervised=supervised)} for server in state.servers
    ]
    return {"home": str(home), "supervised": supervised, "servers": servers}


def _stands(server: ServerState, *, supervised: bool) -> str:
    """What is true now, also when the supervisor was killed and could not write it down."""
    if supervised or server.process is None:
        return server.state
    return "unsupervised" if processes.alive(server.process) else "dead"


def _stopped(state: Servers) -> bool:
    """Whether it was stopped on purpose."""
    return not processes.alive(state.supervisor) and all(server.state == "stopped" for server in state.servers)
