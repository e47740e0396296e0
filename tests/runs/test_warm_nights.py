"""Nights that begin with the champion: three in a row, whose models are refits, and what is said and rebuilt of them."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.contracts import paths, summaries
from ratchet.contracts.summaries import TrainedModel
from ratchet.runs.history import plan_of, runs_of
from ratchet.runs.outcomes import outcomes
from ratchet.store.base import Store
from ratchet.store.ledger import records
from ratchet.store.opening import open_store
from ratchet.store.version_records import read_record
from tests.runs.nights import CallResult, ratchet

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("warm")]
FIRST = date(2026, 3, 20)
DAYS = [FIRST + timedelta(days=2 * number) for number in range(3)]
PIPELINE = """
name: warm
source: {{kind: files, uri: "{data}/date={{date}}/*.parquet", window_days: 6}}
columns:
  x: {{role: numeric, type: float64}}
  z: {{role: numeric, type: float64}}
  kind: {{role: categorical, type: string}}
  bought: {{role: label, type: int64}}
validate: {{volume: {{tolerance: "50%"}}}}
train: {{objective: binary, init: champion, refit: true, model: {{hidden: [16]}}}}
gate: {{stale_after: 1d, max_stale_loss: "10%"}}
resources: {{train: {{cpus: 1}}}}
"""
"""Each champion is stale two days later, so each night has a version."""


def day_rows(day: date, count: int = 800) -> pa.Table:
    """What is bought depends on two numbers and a kind; each day has a kind that is new."""
    draw = np.random.default_rng(day.toordinal())
    x, z = draw.normal(size=(2, count))
    kind = draw.integers(0, 8, count)
    pull = 1.5 * x - z + (kind % 4 - 1.5)
    names = [f"k{one}" if place % 50 else f"new {day}" for place, one in enumerate(kind)]
    label = (draw.random(count) < 1 / (1 + np.exp(-pull))).astype(np.int64)
    return pa.table({"x": x, "z": z, "kind": names, "bought": label})


@dataclass(frozen=True, kw_only=True)
class Nights:
    """A pipeline whose training begins with the champion, and its store. said: what its nights printed."""

    folder: Path
    store: Store
    said: Sequence[Any] = ()

    def night(self, day: date, *more: str) -> Any:
        given = ("--date", f"{day}", "--store", self.store.uri, "--runner", "process", "--json")
        ended = ratchet("run", str(self.folder / "warm"), *given, *more)
        assert ended.code == 0, ended.err
        return ended.json

    def copy(self, folder: Path) -> "Nights":
        shutil.copytree(self.folder / "store", folder / "store", symlinks=True, copy_function=os.link)
        return Nights(folder=self.folder, store=open_store((folder / "store").as_uri()))

    def model(self, day: date, stage: str = "train", run: int = -1) -> TrainedModel:
        result = outcomes(self.store, "warm", runs_of(self.store, "warm", day)[run])[stage].result  # type: ignore[index] # a stage by any name
        assert result is not None
        return summaries.trained(result)

    def reproduce(self, version: int, *more: str) -> CallResult:
        return ratchet("reproduce", f"warm@{version}", "--store", self.store.uri, "--runner", "process", *more)

    def forget_weights(self, *versions: int) -> None:
        """Delete the published models of some versions."""
        for version in versions:
            for stage in ("train", "refit"):
                manifest = read_record(self.store, "warm", f"{version}").stages[stage].manifest  # type: ignore[index]
                for entry in list(self.store.list(paths.published_prefix(manifest))):
                    if not entry.key.endswith(".json"):
                        self.store.delete(entry.key)


def made_in(folder: Path, days: Sequence[date]) -> Nights:
    """The nights of some days, in an empty folder."""
    for back in range(-4, 6):
        day = FIRST - timedelta(days=back)
        path = folder / "data" / f"date={day}" / "part-0.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(day_rows(day), path)
    (folder / "warm").mkdir()
    (folder / "warm" / "pipeline.yaml").write_text(PIPELINE.format(data=folder / "data"), encoding="utf-8")
    made = Nights(folder=folder, store=open_store((folder / "store").as_uri()))
    return Nights(folder=folder, store=made.store, said=[made.night(day) for day in days])


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return made_in(tmp_path_factory.mktemp("warm"), DAYS)


def steps(model: TrainedModel) -> int:
    return model.evaluations[-1].step


def test_the_first_night_begins_fresh_and_says_so_and_the_others_begin_with_the_champion(nights: Nights) -> None:
    assert [night["model"]["version"] for night in nights.said] == ["1", "2", "3"]
    ledger = records(nights.store, "warm")
    first, *others = (nights.model(day) for day in DAYS)
    assert first.warm_start is None
    assert "Began fresh" in Path(nights.said[0]["report"]).read_text(encoding="utf-8")
    for place, made in enumerate(others):
        begun = made.warm_start
        assert begun is not None
        parent = begun.parent
        assert (parent.version, parent.digest) == (ledger[place].version, ledger[place].model_digest)
        assert (parent.until, parent.generation) == (DAYS[place], place + 1)
        assert begun.parameters == begun.of_parameters
        assert begun.rows == begun.of_rows - 1  # the kind that is new
        assert steps(made) <= 0.3 * steps(first)
        page = Path(nights.said[place + 1]["report"]).read_text(encoding="utf-8")
        assert parent.title in page
        assert begun.in_words in page


def test_a_refit_begins_with_the_same_parent(nights: Nights) -> None:
    for day in DAYS[1:]:
        measured, refit = nights.model(day), nights.model(day, "refit")
        assert refit.warm_start is not None
        assert measured.warm_start is not None
        assert refit.warm_start.parent == measured.warm_start.parent
        assert refit.refit is not None
        assert refit.refit.refused == ""
        assert refit.split.train[-1] == day


def test_the_record_names_the_parent(nights: Nights) -> None:
    second, third = (read_record(nights.store, "warm", f"{version}") for version in (2, 3))
    assert third.parent is not None
    assert third.parent.digest == second.digest
    assert third.parent.weights == second.weights["refit"]
    assert third.parent.since <= FIRST - timedelta(days=5)
    why = ratchet("why", f"warm/{third.run_id}", "--store", nights.store.uri)
    assert f"began with {third.parent.title}" in why.out


def test_the_same_date_again_has_the_same_parent_and_finds_its_training(nights: Nights, tmp_path: Path) -> None:
    place = nights.copy(tmp_path)
    again = place.night(DAYS[1])
    assert {stage["name"]: stage["cached"] for stage in again["stages"]}["train"]
    plans = [plan_of(place.store, "warm", run) for run in runs_of(place.store, "warm", DAYS[1])]
    assert len(plans) == 2
    assert plans[0] is not None
    assert plans[1] is not None
    assert plans[0].parent == plans[1].parent


def test_a_version_is_built_again_from_the_weights_that_it_began_with(nights: Nights, tmp_path: Path) -> None:
    place = nights.copy(tmp_path)
    ended = place.reproduce(3, "--json")
    assert (ended.code, ended.json["likeness"], ended.json["parents"]) == (0, "bit-equal", [])


def test_its_parent_is_built_again_first_where_asked_for(nights: Nights, tmp_path: Path) -> None:
    place = nights.copy(tmp_path)
    ended = place.reproduce(2, "--json", "--chain")
    assert ended.code == 0, ended.out + ended.err
    assert [(one["version"], one["likeness"]) for one in ended.json["parents"]] == [("1", "bit-equal")]


def test_parents_whose_weights_are_gone_are_built_again_first_and_nothing_of_them_stays(
    nights: Nights, tmp_path: Path
) -> None:
    place = nights.copy(tmp_path)
    place.forget_weights(1, 2)
    before = {entry.key for entry in place.store.list("published/warm/train")}
    ended = place.reproduce(3)
    assert ended.code == 0, ended.out + ended.err
    assert ended.out.startswith("bit-equal: ")
    for version in (1, 2):
        assert f"its parent, version {version}, was built again first: bit-equal" in ended.out
    assert {entry.key for entry in place.store.list("published/warm/train")} == before


def test_a_parent_without_weights_and_record_is_named(nights: Nights, tmp_path: Path) -> None:
    place = nights.copy(tmp_path)
    place.forget_weights(2)
    second = read_record(place.store, "warm", "2")
    place.store.delete(paths.version_record("warm", "2", second.digest))
    ended = place.reproduce(3)
    assert ended.code == 66
    assert f"gone: the parent, version 2 of warm (model {second.digest[:12]}" in ended.out
