"""The embedded set-up: `python -m local serve` starts its servers for your own pipelines, `stop` ends them.

`python -m local run PROGRAM ...` runs a program, such as `airflow` or `ratchet`, with the settings of the servers.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from local.services import Services
from ratchet.checkout import ROOT
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import ConfigurationError, RatchetError, Unavailable

_HOMES = ("demo", "local")


def main() -> int:
    """Run one of the verbs."""
    options = _options()
    home, console = options.home.resolve(), Console()
    if options.verb == "run":
        return _run(home, [options.program, *options.words])
    if options.verb == "stop":
        ended = [name for each in _HOMES for name in Services(ROOT, home / each).stop()]
        console.print(f"stopped: {', '.join(ended)}" if ended else "nothing was running")
        return 0
    here = environment()
    services = Services(ROOT, home / "local", data=_absolute(here.data), store=_absolute(here.store))
    try:
        _ = here.digest  # a wrong one is refused here, and not by the watch in the morning
        services.start()
        services.wait()
    except RatchetError as error:
        console.print(f"serve: {error}", style="red", markup=False, soft_wrap=True)
        return int(error.code)
    for line in services.addresses():
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, does in (
        ("serve", "start the servers for your own pipelines"),
        ("stop", "end what `make serve` and `make demo` have started"),
        ("run", "run a program with the settings of the servers that run"),
    ):
        own = verbs.add_parser(verb, help=does)
        own.add_argument("--home", type=Path, default=ROOT / ".ratchet", help="the folder for state, data and results")
        if verb == "run":
            own.add_argument("program", metavar="PROGRAM", help="such as airflow or ratchet")
            own.add_argument("words", metavar="...", nargs=argparse.REMAINDER, help="its arguments")
    return parser.parse_args()


def _run(home: Path, command: list[str]) -> int:
    """Run a program with the environment of the servers: those of `make serve`, or else those of `make demo`."""
    found = filter(None, (Services(ROOT, home / each).running_environment() for each in reversed(_HOMES)))
    try:
        given = next(found, None)
        if given is None:
            raise Unavailable("no servers run here", remedy="start them: make serve")
        return subprocess.call(command, env=given)
    except FileNotFoundError:
        error: RatchetError = ConfigurationError(f"there is no program {command[0]}", remedy="correct its name")
    except RatchetError as why:
        error = why
    sys.stderr.write(f"run: {error}\n")
    return int(error.code)


def _absolute(place: str | None) -> str | None:
    """A folder as its full path, since the servers run in another folder; a URI unchanged."""
    return place if place is None or "://" in place else str(Path(place).resolve())


if __name__ == "__main__":
    sys.exit(main())
