"""The embedded set-up: `python -m local serve` starts its servers for your own pipelines, `stop` ends them."""

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console

from local.services import Services
from ratchet.checkout import ROOT
from ratchet.contracts.errors import RatchetError

_OWN = ("RATCHET_DATA", "RATCHET_STORE")
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
    own = {name: _absolute(os.environ[name]) for name in _OWN if name in os.environ}
    services = Services(ROOT, home / "local", settings=own)
    try:
        services.start()
        services.wait()
    except RatchetError as error:
        console.print(f"serve: {error}", style="red", markup=False)
        return int(error.code)
    for line in services.addresses():
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0


def _absolute(place: str) -> str:
    """A folder as its full path, since the servers run in another folder; a URI unchanged."""
    return place if "://" in place else str(Path(place).resolve())


if __name__ == "__main__":
    sys.exit(main())
