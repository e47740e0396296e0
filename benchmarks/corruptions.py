"""corruptions: which of a catalogue validate names by rule and column, and how many good nights it stops.

Each corruption spoils the newest day of a set; its night ingests and validates in this process. `--full` also plays all
nights of a year of real flights, the storm's too.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.corruption import Corruption, Day
from benchmarks.corruption_catalogue import CATALOGUE
from benchmarks.corruption_sets import DataSet, flights_before_departure, sets, write
from benchmarks.data_night import DataNights, Night
from benchmarks.measure import Result
from benchmarks.tasksets import SHARED
from ratchet.contracts import dates

_MISSED = 0.05
_STOPPED = 1 / 60
_YEAR = (date(2013, 1, 30), date(2013, 12, 31))
_WINDOW = 30
_STORM = frozenset({date(2013, 2, 8), date(2013, 2, 9)})
"""Hardly a flight left: to stop these nights is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a night said of a corruption. named: whether the right rule and column are in it."""

    of: DataSet
    corruption: Corruption
    night: Night
    named: bool

    @property
    def line(self) -> str:
        """It in words."""
        said = ", ".join(f"{check.rule} {check.column or ''}".strip() for check in self.night.failed)
        return f"{self.of.name}: {self.corruption.name}: {said or self.night.error[:100] or 'nothing'}"


class Spoiled:
    """The days of a set below a folder, the newest of which can be spoiled."""

    def __init__(self, folder: Path, of: DataSet, document: Callable[[str], Mapping[str, Any]] | None = None) -> None:
        """document: the pipeline file by the address of its source; by default that of the set."""
        self._folder, self._of = folder, of
        uri = f"{folder / 'source'}/date={{date}}/*"
        self._nights = DataNights(folder=folder, document=(document or of.document)(uri))
        for day in of.days():
            write(self._path(day), of.read(day))
        *_, before, last = of.days()
        self._day = Day(rows=of.read(last), before=of.read(before), of=of)

    def good(self) -> Night:
        """The night of the newest day as it is."""
        return self._nights.play(self._of.last)

    def night(self, corruption: Corruption) -> Outcome:
        """The night of the newest day, spoiled."""
        path = self._path(self._of.last)
        made = corruption.change(self._day)
        if isinstance(made, pl.DataFrame):
            write(path, made)
        else:
            path.unlink()
            path = path.with_suffix(".csv" if corruption.is_csv else ".parquet")
            path.write_bytes(made)
        try:
            night = self._nights.play(self._of.last)
        finally:
            path.unlink()
            write(self._path(self._of.last), self._day.rows)
        return Outcome(of=self._of, corruption=corruption, night=night, named=_is_named(corruption, night, self._of))

    def _path(self, day: date) -> Path:
        return self._folder / "source" / f"date={day}" / "part-0.parquet"


def _is_named(corruption: Corruption, night: Night, of: DataSet) -> bool:
    expected = corruption.expected(of)
    if any((check.rule, check.column) in expected for check in night.failed):
        return True
    if night.checks or not night.error:
        return False
    return any(rule == "ingest" and (column is None or column in night.error) for rule, column in expected)


def outcomes(folder: Path, of: DataSet, catalogue: Sequence[Corruption] = CATALOGUE) -> Iterator[Outcome]:
    """Play each corruption on a set. Raises RuntimeError if the good day does not pass."""
    spoiled = Spoiled(folder, of)
    good = spoiled.good()
    if good.error:
        raise RuntimeError(f"{of.name}: its good day is refused: {good.error}")
    for corruption in catalogue:
        yield spoiled.night(corruption)


def stopped(folder: Path, say: Callable[[str], None]) -> tuple[list[date], int]:
    """The nights of the year of flights that were stopped, and how many there are. Later ones do without these days."""
    document = flights_before_departure().document(f"{SHARED / 'flights'}/date={{date}}/*.parquet")
    document["source"]["window_days"] = _WINDOW
    nights = DataNights(folder=folder, document=document)
    days = dates.between(*_YEAR)
    refused = []
    for day in days:
        night = nights.play(day, records=True)
        if night.error:
            refused.append(day)
            say(f"{day:%a} {night.error.partition('; to do')[0]}")
    return refused, len(days)


def run(*, full: bool) -> Result:
    """The catalogue on every set that is here; with --full also the nights of a year."""
    rows: list[tuple[str, str]] = []
    missed: list[Outcome] = []
    played = 0
    with tempfile.TemporaryDirectory(prefix="ratchet-corruptions-") as folder:
        for of in sets():
            found = list(outcomes(Path(folder) / of.name, of))
            wrong = [one for one in found if not one.named]
            rows.append((of.name, f"{len(found) - len(wrong)} of {len(found)} corruptions named by rule and column"))
            missed += wrong
            played += len(found)
        rows += [("missed", one.line) for one in missed]
        share = len(missed) / played
        parts = [share / _MISSED]
        if full and (SHARED / "flights").is_dir():
            said: list[str] = []
            refused, nights = stopped(Path(folder) / "year", said.append)
            false = len({*refused} - _STORM)
            rows += [("stopped", line) for line in said]
            rows.append(("nights of flights", f"{len(refused)} of {nights} stopped, {false} without a storm"))
            parts.append(false / nights / _STOPPED)
    return Result(
        name="corruptions",
        ratio=max(parts),
        goal=1.0,
        unit="of what may be missed, or stopped",
        ours=1 - share,
        peer=1 - _MISSED,
        peer_name="the goal itself",
        rows=tuple(rows),
    )
