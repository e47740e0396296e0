"""The embedded set-up: `python -m local serve` starts its servers for your own pipelines, `stop` ends them."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from local.services import Services
from ratchet.checkout import ROOT
from ratchet.contracts.environment import environment
from ratchet.contracts.errors import RatchetError

_HOMES = ("demo", "local")


def main() -> int:
    """Run one of the verbs."""
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    parser.add_argument("verb", choices=("serve", "stop"))
    parser.add_argument("--home", type=Path, default=ROOT / ".ratchet", help="the folder for state, data and results")
    options = parser.parse_args()
    home, console = options.home.resolve(), Console()
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


def _absolute(place: str | None) -> str | None:
    """A folder as its full path, since the servers run in another folder; a URI unchanged."""
    return place if place is None or "://" in place else str(Path(place).resolve())


if __name__ == "__main__":
    sys.exit(main())
