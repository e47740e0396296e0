"""The embedded set-up: `make demo` takes the example through two nights, `make serve` just starts the servers."""

import argparse
import os
import sys
import time
from pathlib import Path

from rich.console import Console

from demo.nights import Nights, addresses
from demo.services import Services
from tasks.contracts.errors import RatchetError

ROOT = Path(__file__).resolve().parents[1]
_OWN = ("RATCHET_DATA", "RATCHET_STORE")


def main() -> int:
    """Run one of the verbs."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("verb", choices=("demo", "serve", "stop"))
    parser.add_argument("--rows-per-day", type=int, default=20_000)
    parser.add_argument("--home", type=Path, default=ROOT / ".ratchet", help="where state, data and results go")
    options = parser.parse_args()
    homes = {name: options.home.resolve() / name for name in ("demo", "local")}
    console = Console()
    if options.verb == "stop":
        ended = [name for home in homes.values() for name in Services(ROOT, home).stop()]
        console.print(f"stopped: {', '.join(ended)}" if ended else "nothing was running")
        return 0
    if options.verb == "demo":
        services = Services(ROOT, homes["demo"])
    else:  # one's own pipelines, on one's own data, in a store that the demo does not share
        own = {name: _absolute(os.environ[name]) for name in _OWN if name in os.environ}
        services = Services(ROOT, homes["local"], settings=own)
    started = time.monotonic()
    try:
        if options.verb == "serve":
            services.start()
            services.wait()
            addresses(services, console)
            return 0
        nights = Nights(services, console, rows_per_day=options.rows_per_day)
        ended_well = nights.run()
    except RatchetError as error:
        console.print(f"demo: {error}", style="red", markup=False)
        return int(error.code)
    console.print(f"the demo took {time.monotonic() - started:.0f} s; `make stop` ends what it started")
    return 0 if ended_well else 1


def _absolute(place: str) -> str:
    """A folder by its full path, as the servers run elsewhere; a URI as it is."""
    return place if "://" in place else str(Path(place).resolve())


if __name__ == "__main__":
    sys.exit(main())
