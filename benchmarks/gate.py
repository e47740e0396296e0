"""gate: false promotions where the true gain is the margin and the models are unequal; reruns; and the power on NDCG.

The whole grid is `--full`. What was measured is kept below .ratchet/gate, so a run that was ended goes on where it was.
A cell above its bound is played again with four times as many other nights, and these decide: of a hundred cells at
exactly 5 %, two are above 5 % and two standard errors by chance.
"""

import csv
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields, replace
from itertools import product
from pathlib import Path

from benchmarks.measure import Result
from benchmarks.nights import MARGIN, ROOT, Cell, Figures, play
from benchmarks.picture import draw
from benchmarks.worlds import Calibrations, Errors, Positives, Ranks, Surprises, World
from ratchet.verdict.comparison import MIN_UNITS

NIGHTS, FEW = 2000, 400
UNITS, SKEWS, SIZES, POSITIVES = (30, 100, 300, 1000, 5000), (0.0, 0.5, 1.0, 2.0), (1, 5), (10, 20, 50, 200)
TRIES = 20
MOST_POWER_LOST = 0.05
FIGURES = ROOT / "benchmarks" / "gate.csv"
PICTURE = ROOT / "docs" / "verdict.svg"
_AGAIN = 4
_TELLING = 200
_MOST_GROUPS = 1000
"""Of five each: more units of groups take most of the time, and none of the doubt."""


def losses(units: int, skew: float, size: int) -> tuple[World, ...]:
    """Worlds of means of an unbounded loss."""
    return (
        Errors(metric="rmse", units=units, skew=skew, size=size, gain=MARGIN),
        Errors(metric="mae", units=units, skew=skew, size=size, gain=MARGIN),
        Surprises(units=units, skew=skew, size=size, gain=MARGIN),
    )


def small() -> Iterator[World]:
    """A world of each kind, where the method of before breaks and where it does not."""
    for units in (300, 1000):
        yield from losses(units, 0.5, 1)
    yield from losses(300, 1.0, 5)
    yield Ranks(units=300, tail=0.04, size=1, gain=MARGIN)
    yield Ranks(units=100, tail=0.1, size=5, gain=MARGIN)
    yield Positives(metric="auc", positives=50, missed=0.1, size=1, gain=MARGIN)
    yield Positives(metric="pr_auc", positives=50, missed=0.1, size=1, gain=MARGIN)
    yield Calibrations(units=1000, skew=1.0, gain=MARGIN, shift=0.5)
    yield Calibrations(units=300, skew=2.0, gain=MARGIN, shift=0.5, coarse=True)
    yield Ranks(units=300, tail=0.0, size=1, gain=0.04)


def whole() -> Iterator[World]:
    """Metric by units, skew, cluster and positives; what takes longest comes last."""
    for units in UNITS:
        for skew in (0.0, 1.0, 2.0):
            yield Calibrations(units=units, skew=skew, gain=MARGIN, shift=0.5)
        yield Calibrations(units=units, skew=2.0, gain=MARGIN, shift=0.5, coarse=True)
    yield from of_positives("auc")
    for size, units, tail in product(SIZES, UNITS, (0.0, 0.04, 0.1)):
        if size == 1 or units <= _MOST_GROUPS:
            yield Ranks(units=units, tail=tail, size=size, gain=MARGIN)
    for size, units, skew in product(SIZES, UNITS, SKEWS):
        yield from losses(units, skew, size)
    yield from of_positives("pr_auc")


def of_positives(metric: str) -> Iterator[World]:
    """Worlds with few positives."""
    for positives, size, missed in product(POSITIVES, SIZES, (0.0, 0.1)):
        yield Positives(metric=metric, positives=positives, missed=missed, size=size, gain=MARGIN)


def repeated() -> Iterator[World]:
    """Worlds in which a night is run again and again."""
    yield Ranks(units=300, tail=0.04, size=1, gain=MARGIN)
    yield Errors(metric="mae", units=300, skew=0.5, size=1, gain=MARGIN)
    yield Positives(metric="auc", positives=50, missed=0.1, size=1, gain=MARGIN)


def clustered() -> Iterator[World]:
    """Worlds of users, to see what it costs not to name them."""
    yield Surprises(units=250, skew=0.0, size=25, gain=MARGIN)
    yield Ranks(units=200, tail=0.0, size=5, gain=MARGIN)
    yield Positives(metric="auc", positives=50, missed=0.0, size=5, gain=MARGIN)


def better() -> Iterator[World]:
    """Worlds with a candidate that is better by more than the margin."""
    for gain in (0.02, 0.03, 0.04, 0.05, 0.06, 0.08):
        yield Ranks(units=300, tail=0.0, size=1, gain=gain)
        yield Ranks(units=300, tail=0.04, size=1, gain=gain)
    for gain in (0.02, 0.04, 0.06, 0.08, 0.12, 0.2):
        yield Errors(metric="mae", units=1000, skew=0.5, size=1, gain=gain)


def run(*, full: bool) -> Result:
    """Each cell of the grid, 2,000 nights each (a small grid of 400 without --full), and what it costs in power."""
    started = time.perf_counter()
    memory = ROOT / ".ratchet" / "gate" if full else None
    nights = NIGHTS if full else FEW
    cells = list(dict.fromkeys(grid(nights))) if full else [Cell(world=one, nights=nights) for one in small()]
    found = confirm(measured(cells, memory), memory)
    if full:
        write(found)
    return result(found, time.perf_counter() - started)


def grid(nights: int) -> Iterator[Cell]:
    """The whole grid. Worlds without a possible verdict get a fifth of the nights, for the method before."""
    for world in (*better(), *whole()):
        yield Cell(world=world, nights=nights if possible(world) else nights // 5)
    for world in repeated():
        yield Cell(world=world, nights=nights, tries=TRIES)
    for world, named in product(clustered(), (True, False)):
        yield Cell(world=world, nights=nights, named=named)


def possible(world: World) -> bool:
    """Whether a night of a world can have a verdict: of a loss, 200 units tell of its tail."""
    if isinstance(world, Positives):
        return world.positives >= MIN_UNITS
    return not isinstance(world, Errors | Surprises) or world.units >= _TELLING


def measured(cells: Sequence[Cell], memory: Path | None) -> list[tuple[Cell, Figures]]:
    """The cells with their figures, in the order of the cells; each is printed as it becomes known."""
    found = {}
    for cell, figures in play(cells, workers=os.cpu_count() or 1, memory=memory):
        found[cell] = figures
        print(f"{len(found)} of {len(cells)}: {figures.name}: {said(figures)}", flush=True)
    return [(cell, found[cell]) for cell in cells]


def confirm(found: Sequence[tuple[Cell, Figures]], memory: Path | None) -> list[Figures]:
    """The figures; of a cell above its bound those of four times as many other nights."""
    doubtful = [
        replace(cell, nights=_AGAIN * cell.nights, series=cell.series + 1)
        for cell, figures in found
        if not figures.holds
    ]
    again = {cell.world: figures for cell, figures in measured(doubtful, memory)}
    return [figures if figures.holds else again[cell.world] for cell, figures in found]


def said(figures: Figures) -> str:
    """The figures of a cell in words."""
    shares = f"promoted {figures.promoted:.1%} (before {figures.before:.1%}), verdict {figures.verdict:.0%}"
    broken = "" if figures.holds else f"; more than {figures.allowed:.1%}"
    return f"{shares}, {figures.nights} nights{broken}"


def result(found: Sequence[Figures], seconds: float) -> Result:
    """The cell that is nearest to its bound, or the power lost on NDCG: whichever is more of what is allowed."""
    margin = [one for one in found if one.named and not one.better and one.judged]
    worst = max(margin, key=lambda one: one.promoted / one.allowed)
    lost = max(
        (one.before - one.promoted for one in found if one.better and one.metric.startswith("ndcg")), default=0.0
    )
    silent = sum(one.named and not one.better and not one.judged for one in found)
    rows = [(one.name, said(one)) for one in found]
    rows.append(("cells with a verdict; without", f"{len(margin)}; {silent}"))
    rows.append(("power lost on ndcg@10, at most", f"{lost:.1%}"))
    rows.append(("seconds", f"{seconds:.0f}"))
    return Result(
        name="gate",
        ratio=max(worst.promoted / worst.allowed, lost / MOST_POWER_LOST),
        goal=1.0,
        unit="of the false promotions that are allowed, in the worst cell; or of the power that may be lost",
        ours=worst.promoted,
        peer=max(one.before for one in found if not one.better),
        peer_name="false promotions by percentiles, in their worst cell",
        rows=tuple(rows),
    )


def write(found: Sequence[Figures]) -> None:
    """The figures as a table, and the picture of them in the docs."""
    with FIGURES.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Figures)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(one) for one in found)
    PICTURE.write_text(draw(found), encoding="utf-8")


def read() -> list[Figures]:
    """The figures of the table."""
    with FIGURES.open(encoding="utf-8", newline="") as file:
        return [
            Figures(
                metric=row["metric"],
                place=row["place"],
                gain=float(row["gain"]),
                tries=int(row["tries"]),
                series=int(row["series"]),
                named=row["named"] == "True",
                nights=int(row["nights"]),
                promoted=float(row["promoted"]),
                before=float(row["before"]),
                verdict=float(row["verdict"]),
            )
            for row in csv.DictReader(file)
        ]
