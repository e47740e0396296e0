"""The ended runs that the watch has looked at, also before it was started again: their plans are not read twice.

A change here violates the promise of the project when a run that failed counts as seen, and nobody was alerted.
"""

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from ratchet_airflow.watch.airflow_runs import ENDED, Run

_FRESH_S = 3600.0
"""Seconds for which a watch that was started again believes what the one before it has written."""
_SETTLED = timedelta(minutes=10)
"""After its end a run is looked at for so long: its tasks may end a moment later, such as where a person ended it."""


class SeenRuns:
    """Kept in memory, and in a file of this host, line by line, so that a watch that is killed goes on from there."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: set[str] = set()
        with suppress(OSError, UnicodeDecodeError):
            if abs(time.time() - file.stat().st_mtime) < _FRESH_S:
                self._known = set(file.read_text(encoding="utf-8").splitlines())

    def __contains__(self, run: Run) -> bool:
        return run.state in ENDED and _line(run) in self._known

    def add(self, run: Run, now: datetime) -> None:
        """Remember that a run was looked at, if it ended some time ago."""
        if run.state in ENDED and run.ended is not None and now - run.ended > _SETTLED:
            self._known.add(_line(run))
            with suppress(OSError), self._file.open("a", encoding="utf-8") as file:
                file.write(f"{_line(run)}\n")

    def keep(self, runs: Iterable[Run]) -> None:
        """Forget all others."""
        kept = self._known.intersection(map(_line, runs))
        if kept != self._known:
            self._known = kept
            with suppress(OSError):
                self._file.write_text("".join(f"{line}\n" for line in sorted(kept)), encoding="utf-8")


def _line(run: Run) -> str:
    return json.dumps([run.dag_id, run.run_id, f"{run.ended}"])
