"""`make demo` and `make stop`: two nights of the search-ranking example through a real Airflow."""

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console

from demo.nights import Nights
from demo.services import Services
from tasks.contracts.errors import RatchetError

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".ratchet" / "demo"


def main() -> int:
    """Run `up` or `down`."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("verb", choices=("up", "down"))
    parser.add_argument("--rows-per-day", type=int, default=20_000)
    options = parser.parse_args()
    console = Console()
    services = Services(ROOT, HOME)
    if options.verb == "down":
        ended = services.stop()
        console.print(f"stopped: {', '.join(ended)}" if ended else "nothing of the demo was running")
        return 0
    started = time.monotonic()
    try:
        nights = Nights(services, console, rows_per_day=options.rows_per_day)
        ended_well = nights.run()
    except RatchetError as error:
        console.print(f"demo: {error}", style="red", markup=False)
        return int(error.code)
    console.print(f"the demo took {time.monotonic() - started:.0f} s; `make stop` ends what it started")
    return 0 if ended_well else 1


if __name__ == "__main__":
    sys.exit(main())
