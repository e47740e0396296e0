"""`make demo`: the example through its nights, under the embedded set-up."""

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console

from demo.nights import Nights
from local.services import Services
from ratchet.checkout import ROOT
from ratchet.contracts.errors import RatchetError


def main() -> int:
    """Run the demo; 0 if it ended as it should."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--home", type=Path, default=ROOT / ".ratchet", help="the folder of state, data and results")
    options = parser.parse_args()
    console, started = Console(), time.monotonic()
    services = Services(ROOT, options.home.resolve() / "demo")
    try:
        ended_well = Nights(services, console).run()
    except RatchetError as error:
        console.print(f"demo: {error}", style="red", markup=False)
        return int(error.code)
    console.print(f"the demo took {time.monotonic() - started:.0f} s; `make stop` ends what it started")
    return 0 if ended_well else 1


if __name__ == "__main__":
    sys.exit(main())
