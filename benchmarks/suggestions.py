"""suggestions: which corruptions the file catches that `ratchet profile --suggest` prints, as it is.

Of each set of `corruptions`, the file is suggested from one good day. Only what the file asks for is filled in: the
place of the days, their number and the time zone. Each corruption of the newest day is played, and counts as caught
if a check of that night fails or warns that does not on the good day, or if ingest refuses the day.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.corruption_catalogue import CATALOGUE
from benchmarks.corruption_sets import DataSet, sets, write
from benchmarks.corruptions import Outcome, Spoiled
from benchmarks.data_night import Night
from benchmarks.measure import Result
from tasks.profiling.suggest import suggest

_GOAL = 0.80


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """The file that was suggested for a set, in the place of the one that a person would write."""

    of: DataSet
    text: str

    def document(self, uri: str) -> dict[str, Any]:
        """The pipeline file with what it asks a person for."""
        found: dict[str, Any] = yaml.safe_load(self.text)
        written = self.of.document(uri)
        return {**found, "name": self.of.name, "source": {**found["source"], **written["source"]}}


def suggestion(folder: Path, of: DataSet) -> Suggestion:
    """What is suggested from the day before the newest one."""
    *_, day, _ = of.days()
    path = folder / of.name / f"{day}.parquet"
    write(path, of.read(day))
    return Suggestion(of=of, text=suggest(path))


def caught(folder: Path, of: DataSet) -> Iterator[tuple[Outcome, bool]]:
    """Play each corruption. Raises RuntimeError if the good day does not pass."""
    spoiled = Spoiled(folder / "nights", of, suggestion(folder, of).document)
    good = spoiled.good()
    if good.error:
        raise RuntimeError(f"{of.name}: its good day is refused: {good.error}")
    usual = _found(good)
    for corruption in CATALOGUE:
        outcome = spoiled.night(corruption)
        yield outcome, bool(outcome.night.error) or bool(_found(outcome.night) - usual)


def _found(night: Night) -> set[tuple[str, str | None]]:
    return {(check.rule, check.column) for check in night.failed}


def run(*, full: bool) -> Result:
    """All sets that are here. full: changes nothing."""
    del full
    rows: list[tuple[str, str]] = []
    missed, played, named = [], 0, 0
    with tempfile.TemporaryDirectory(prefix="ratchet-suggestions-") as folder:
        for of in sets():
            found = list(caught(Path(folder) / of.name, of))
            wrong = [outcome for outcome, was_caught in found if not was_caught]
            rows.append((of.name, f"{len(found) - len(wrong)} of {len(found)} corruptions caught"))
            missed += wrong
            played += len(found)
            named += sum(outcome.named for outcome, _ in found)
    share = 1 - len(missed) / played
    rows += [("missed", outcome.line) for outcome in missed]
    rows.append(("by rule and column", f"{named} of {played}"))
    return Result(
        name="suggestions",
        ratio=(1 - share) / (1 - _GOAL),
        goal=1.0,
        unit="of what may be missed",
        ours=share,
        peer=_GOAL,
        peer_name="the goal itself",
        rows=tuple(rows),
    )
