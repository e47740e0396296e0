"""Nights of a month of the sample clicks, one after another: what production's history says in the end.

Each night has five days of data. On one the prices arrive in cents, from one on the model knows the items and is much
better, one is killed in the middle and started again, after one the new model is taken back, and from one on the file no
longer has a feature.
"""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ratchet.samples.clicks import day_clicks
from ratchet.samples.days import write_days
from ratchet.store.base import Store
from ratchet.store.ledger import Record, champion, records
from ratchet.store.opening import open_store
from ratchet.tracking.mlflow import Tracker, track
from ratchet.tracking.registry import CHAMPION
from tests.runs.nights import CallResult, ratchet
from tests.waiting import until

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("month"), pytest.mark.timeout(1800)]

FIRST = date(2026, 3, 1)
NIGHTS = 13
POISONED, BETTER, KILLED, BACK, DROPPED = 2, 6, 7, 8, 11
"""Numbers of nights, from 0. Production goes back after the night BACK."""
WINDOW = 5
_FILE = """
name: month
source: {{kind: files, uri: "{data}/clicks/date={{date}}/*.parquet", window_days: {window}}}
columns:
  query_id: {{role: group, type: int64}}
  shown_at: {{role: time, type: timestamp}}
  item_id:  {{role: {item}, type: string}}
  country:  {{role: categorical, type: string, in: [DE, FR, US]}}
  price:    {{role: numeric, type: float64, min: 0, max_null: 1%, transform: log1p}}
{rating}  position: {{role: ignore, type: int64}}
  clicked:  {{role: label, type: int64, in: [0, 1]}}
train: {{objective: ranking, {model}}}
evaluate: {{slices: [country]}}
gate: {{min_gain: 0.5%}}
"""
_RATING = "  rating:   {role: numeric, type: float64, min: 0, max: 5}\n"
_POOR = "model: {kind: linear}, epochs: 3, batch_size: 100, learning_rate: 1.0e-2"
_GOOD = "model: {kind: dcn, hidden: [64]}, epochs: 3, batch_size: 100, learning_rate: 5.0e-3"


@dataclass(kw_only=True)
class Month:
    """The folder of a month.

    shown: what `ratchet run --json` printed for each night. again: what it printed for the night of the model that was
    taken back, at once after that; moved: the records of the ledger that this made.
    """

    folder: Path
    shown: dict[int, dict[str, Any]] = field(default_factory=dict)
    again: dict[str, Any] = field(default_factory=dict)
    moved: tuple[Record, ...] = ()

    @property
    def taken(self) -> Record:
        """The record of the model that was taken back."""
        back = next(record for record in self.history if record.action == "rollback")
        return next(record for record in reversed(self.history[: back.number - 1]) if record.action == "promote")

    def take_back(self) -> None:
        """Roll production back, and run the night of the model that was in it again."""
        assert self.verb("rollback", "month", "--because", "sales fell").code == 0
        before = len(self.history)
        self.again = ratchet(*self.words((self.taken.data_date - FIRST).days)).json
        self.moved = self.history[before:]

    @property
    def store(self) -> Store:
        return open_store(str(self.folder / "store"))

    @property
    def history(self) -> tuple[Record, ...]:
        return records(self.store, "month")

    def write(self, *, model: str, rating: str = _RATING, item: str = "categorical") -> None:
        """Write the pipeline's file."""
        text = _FILE.format(data=self.folder, window=WINDOW, rating=rating, item=item, model=model)
        (self.folder / "month").mkdir(exist_ok=True)
        (self.folder / "month" / "pipeline.yaml").write_text(text)

    def words(self, night: int) -> list[str]:
        """The command of a night."""
        day = FIRST + timedelta(days=night)
        return [
            *("run", str(self.folder / "month"), "--date", f"{day}", "--store", self.store.uri),
            *("--runner", "process", "--json"),
        ]

    def run(self, night: int) -> CallResult:
        """Run a night to its end."""
        ended = ratchet(*self.words(night))
        self.shown[night] = ended.json
        return ended

    def kill(self, night: int) -> None:
        """Kill a night without notice once its features are there."""
        command = [sys.executable, "-m", "ratchet.cli.main", *self.words(night)]
        day = FIRST + timedelta(days=night)

        def has_features() -> bool:
            keys = (entry.key for entry in self.store.list("runs/month"))
            return any(f"local-{day}" in key and key.endswith("features.json") for key in keys)

        with subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.DEVNULL) as run:
            until(lambda: run.poll() is not None or has_features(), seconds=120)
            assert run.poll() is None
            run.kill()

    def verb(self, *words: str) -> CallResult:
        """Call another verb on the store."""
        return ratchet(*words, "--store", self.store.uri)

    def alias(self) -> str:
        """The digest of the model that MLflow's alias names."""

        def look(tracker: Tracker) -> str:
            version = tracker.client.get_model_version_by_alias("month", CHAMPION)
            return str(version.tags["ratchet.model_digest"])

        return track(self.store, None, self.folder, look)


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Month:
    """All nights."""
    made = Month(folder=tmp_path_factory.mktemp("month"))
    last = FIRST + timedelta(days=NIGHTS - 1)
    for _ in write_days(made.folder / "clicks", days=NIGHTS + WINDOW - 1, end=last, table=_day):
        pass
    made.write(model=_POOR, item="ignore")
    for night in range(NIGHTS):
        if night == BETTER:
            made.write(model=_GOOD)
        if night == DROPPED:
            made.write(model=_GOOD, rating="")
        if night == KILLED:
            made.kill(night)
        made.run(night)
        if night == BACK:
            made.take_back()
    return made


def _day(day: date) -> pa.Table:
    rows = day_clicks(day, seed=0, rows_per_day=4000)
    if day != FIRST + timedelta(days=POISONED):
        return rows
    return rows.set_column(rows.column_names.index("price"), "price", pc.multiply(rows["price"], pa.scalar(100.0)))


def test_production_only_moved_by_a_verdict_or_by_the_person_who_took_a_model_back(month: Month) -> None:
    changes = [(record.action, record.data_date) for record in month.history]
    assert changes[0] == ("promote", FIRST)
    assert ("promote", FIRST + timedelta(days=BETTER)) in changes
    assert [action for action, _ in changes].count("rollback") == 1
    promoted = {day for action, day in changes if action == "promote"}
    verdicts = {FIRST + timedelta(days=night) for night, shown in month.shown.items() if shown["verdict"] == "promote"}
    assert promoted == verdicts


def test_the_poisoned_day_was_refused_and_later_nights_went_on_without_it(month: Month) -> None:
    poisoned = month.shown[POISONED]
    assert poisoned["verdict"] is None
    assert "price" in poisoned["error"]["cause"]
    assert {stage["name"] for stage in poisoned["stages"]}.isdisjoint({"train", "evaluate", "register"})
    assert all(month.shown[night]["verdict"] for night in range(POISONED + 1, POISONED + WINDOW))


def test_the_killed_night_came_to_its_verdict_when_it_was_started_again(month: Month) -> None:
    assert month.shown[KILLED]["verdict"] is not None
    assert month.shown[KILLED]["error"] is None


def test_nights_without_the_dropped_feature_are_compared_with_a_champion_that_reads_it(month: Month) -> None:
    first = month.shown[DROPPED]
    assert first["verdict"] in {"promote", "reject", "inconclusive"}
    assert first["metrics"]["baseline"]
    assert "production (version" in first["reason"]


def test_what_was_taken_back_does_not_return(month: Month) -> None:
    assert month.moved == ()
    assert month.again["error"] is None
    assert month.again["verdict"] == "promote"  # it is better than the model before it, and banned
    back = next(record for record in month.history if record.action == "rollback")
    taken = month.taken
    assert taken.model_digest not in {record.model_digest for record in month.history[back.number - 1 :]}
    again = (taken.data_date - FIRST).days
    before = month.history
    month.write(model=_GOOD)
    for more in ((), ("--promote", "never"), ("--rebuild",)):
        ended = ratchet(*month.words(again), *more)
        assert ended.code == 0, ended.err
    assert month.history == before


def test_the_alias_is_the_head_of_a_whole_ledger(month: Month) -> None:
    live = champion(month.store, "month")
    assert live is not None
    assert month.alias() == live.model_digest
    assert [record.number for record in month.history] == list(range(1, len(month.history) + 1))
    seen = month.verb("doctor", "month")
    assert seen.code == 0, seen.out
