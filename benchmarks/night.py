"""night: one more night with a window of 30 days, against one with the smallest window, and with 365 days.

Made-up days of 20 columns in a store that is a folder. Nights before have read the days; then each night has one new
day, and runs ingest, validate and features in one process, as tests do. The median of five such nights counts. Calls
are those to the store. The quick variant has 2,000 rows a day and no window of 365; the goal is for 20,000 rows.
"""

import tempfile
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import measure
from benchmarks.made_up_nights import LAST, night, world_of
from benchmarks.measure import Result

_SMALLEST, _MONTH, _YEAR = 3, 30, 365
_NIGHTS = 5


def run(*, full: bool) -> Result:
    """Windows one after the other, each with a store of its own."""
    rows = 20_000 if full else 2_000
    seconds = {window: _night(window, rows) for window in ((_SMALLEST, _MONTH, _YEAR) if full else (_SMALLEST, _MONTH))}
    shown = [(f"a night, {window} days", f"{1000 * each:,.0f} ms") for window, each in seconds.items()]
    if full:
        shown.append(("365 days / 30 (goal: 1.2)", f"{seconds[_YEAR] / seconds[_MONTH]:.2f}"))
    return Result(
        name="night",
        ratio=seconds[_MONTH] / seconds[_SMALLEST],
        goal=1.3,
        unit="of a night with 3 days",
        ours=seconds[_MONTH],
        peer=seconds[_SMALLEST],
        peer_name="seconds of a night with 3 days",
        rows=tuple(shown),
    )


def _night(window: int, rows: int) -> float:
    """The median seconds of a night with one new day."""
    with tempfile.TemporaryDirectory(prefix="ratchet-") as folder:
        world = world_of(Path(folder), window=window, rows=rows, more=_NIGHTS)
        night(world, LAST - timedelta(days=_NIGHTS))
        nights = [LAST - timedelta(days=back) for back in range(_NIGHTS - 1, -1, -1)]
        return median(measure.seconds(partial(night, world, day)) for day in nights)
