"""backfill: seconds per date of an unattended backfill, compared with a night alone.

The time ends with the summary. Airflow, the containers and the store are real. `--full` runs 30 dates, else 5.
"""

import tempfile
import time
from datetime import date, timedelta
from pathlib import Path

from benchmarks.airflow_run import DAY, PIPELINE, sandbox
from benchmarks.measure import Result
from ratchet.runs.history_page import in_words
from ratchet.runs.run_index import nights
from ratchet.store.opening import open_store

_ROWS = 2_000
_LIMIT_S = 3000


def run(*, full: bool) -> Result:
    """Run one night alone, then all dates up to it."""
    dates = 30 if full else 5
    first = DAY - timedelta(days=dates - 1)
    with tempfile.TemporaryDirectory(prefix="ratchet-backfill-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        with sandbox(home, rows_per_day=_ROWS, days=dates + 29) as airflow:
            alone = airflow.night().seconds
            began = time.monotonic()
            airflow.backfill(first, DAY, seconds=_LIMIT_S)
            took = time.monotonic() - began
            store = open_store(airflow.services.store)
            days = [first + timedelta(days=number) for number in range(dates)]
            lines = [line for line in nights(store, PIPELINE, "backfill") if line.day in days]
    if len(lines) < dates:
        raise RuntimeError(f"only {len(lines)} of {dates} dates ran")
    return Result(
        name="backfill",
        ratio=took / dates / alone,
        goal=1.0,
        unit="of a night alone, for each date",
        ours=took / dates,
        peer=alone,
        peer_name="a night alone",
        rows=(
            ("dates", f"{dates}, {_shown(first)} to {_shown(DAY)}"),
            ("in all, until the summary", f"{took:.0f} s"),
            ("a date", f"{took / dates:.1f} s"),
            ("a night alone", f"{alone:.1f} s"),
            ("verdicts", in_words(lines)),
        ),
    )


def _shown(day: date) -> str:
    return day.isoformat()
