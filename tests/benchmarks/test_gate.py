"""The promise of the gate on a small grid of unequal models whose true gain is the margin."""

import math
import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks import gate, nights
from benchmarks.nights import Cell, Figures, play
from benchmarks.picture import draw
from benchmarks.worlds import Calibrations, Errors, Positives, Ranks, Surprises, World
from ratchet.contracts.gate import lower_is_better
from ratchet.metrics.metrics import Rows, measure

CELLS = tuple(Cell(world=world, nights=gate.FEW) for world in gate.small())


@pytest.fixture(scope="module")
def found() -> dict[str, Figures]:
    """The small grid, each cell by its name."""
    measured = play(CELLS, workers=os.cpu_count() or 1)
    return {figures.name: figures for _, figures in measured}


@pytest.mark.heavy
@pytest.mark.xdist_group("gate")
def test_unequal_models_are_promoted_no_more_often_than_the_confidence_allows(found: dict[str, Figures]) -> None:
    cells = [one for one in found.values() if not one.better]
    assert len(cells) == len(CELLS) - 1
    assert all(one.judged for one in cells)
    broken = [gate.said(one) for one in cells if one.promoted > 0.05 + 2 * math.sqrt(0.05 * 0.95 / one.nights)]
    assert not broken


@pytest.mark.heavy
@pytest.mark.xdist_group("gate")
def test_percentiles_alone_break_the_same_bound(found: dict[str, Figures]) -> None:
    broken = {one.metric for one in found.values() if not one.better and one.before > one.allowed}
    assert {"rmse", "logloss"} <= broken


@pytest.mark.heavy
@pytest.mark.xdist_group("gate")
def test_a_ranking_that_is_better_is_promoted_as_often_as_by_percentiles(found: dict[str, Figures]) -> None:
    (one,) = (one for one in found.values() if one.better)
    assert one.promoted > 0.25
    assert one.promoted >= one.before - gate.MOST_POWER_LOST


GAIN = 0.005
WORLDS: tuple[World, ...] = (
    Errors(metric="rmse", units=40_000, skew=0.5, size=1, gain=GAIN),
    Errors(metric="mae", units=20_000, skew=0.5, size=5, gain=GAIN),
    Surprises(units=40_000, skew=1.0, size=1, gain=GAIN),
    Surprises(units=20_000, skew=0.0, size=5, gain=0.05),
    Ranks(units=40_000, tail=0.1, size=1, gain=GAIN),
    Ranks(units=20_000, tail=0.0, size=3, gain=0.08),
    Positives(metric="auc", positives=600, missed=0.1, size=1, gain=GAIN),
    Positives(metric="pr_auc", positives=600, missed=0.1, size=1, gain=GAIN),
    Calibrations(units=40_000, skew=1.0, gain=GAIN, shift=0.5),
    Calibrations(units=40_000, skew=2.0, gain=GAIN, shift=0.5, coarse=True),
)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.metric}, {world.place}")
def test_the_true_gain_of_a_world_is_the_one_that_it_says(world: World) -> None:
    sign = -1 if lower_is_better(world.metric) else 1
    gains = []
    for seed in range(30):
        night = world.night(np.random.default_rng(seed))
        rows = Rows(label=night.rows.label, offsets=night.rows.offsets)
        ours, base = measure(world.metric, rows, night.candidates[0]), measure(world.metric, rows, night.baseline)
        assert ours
        assert base
        gains.append(sign * (ours.value / base.value - 1))
    assert abs(np.mean(gains) - world.gain) < 4 * np.std(gains) / math.sqrt(len(gains))


def test_the_tries_of_a_night_are_candidates_of_their_own_on_the_same_rows() -> None:
    night = Ranks(units=50, tail=0.04, size=1, gain=GAIN).night(np.random.default_rng(0), 3)
    assert night.candidates.shape == (3, 500)
    assert len({one.tobytes() for one in night.candidates}) == 3


def test_what_was_measured_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(world=Errors(metric="mae", units=30, skew=0.0, size=1, gain=GAIN), nights=60)
    ((_, first),) = play([cell], workers=1, memory=tmp_path)
    monkeypatch.setattr(nights, "ProcessPoolExecutor", None)
    assert [figures for _, figures in play([cell], workers=1, memory=tmp_path)] == [first]


def test_another_series_has_other_nights() -> None:
    world = Ranks(units=40, tail=0.0, size=1, gain=0.2)
    one, other = (Cell(world=world, nights=50, series=series).chunks[0] for series in (1, 2))
    assert nights.nights_of(one) != nights.nights_of(other)


def test_a_cell_above_its_bound_is_decided_by_four_times_as_many_other_nights(tmp_path: Path) -> None:
    cell = Cell(world=Errors(metric="mae", units=250, skew=0.0, size=1, gain=GAIN), nights=20)
    bad = Figures(
        metric="mae",
        place=cell.world.place,
        gain=GAIN,
        tries=1,
        series=1,
        named=True,
        nights=20,
        promoted=0.5,
        before=0.5,
        verdict=1,
    )
    (found,) = gate.confirm([(cell, bad)], tmp_path)
    assert (found.nights, found.series) == (80, 2)
    assert found.holds


def test_a_cell_without_verdicts_promises_nothing() -> None:
    silent = Figures(
        metric="mae",
        place="",
        gain=GAIN,
        tries=1,
        series=1,
        named=True,
        nights=400,
        promoted=0.0,
        before=0.3,
        verdict=0.01,
    )
    assert not silent.judged
    assert silent.holds


def test_the_picture_of_the_page_is_that_of_the_figures_in_the_table() -> None:
    assert gate.PICTURE.read_text(encoding="utf-8") == draw(gate.read())
