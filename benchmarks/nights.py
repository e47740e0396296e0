"""Plays the nights of worlds on all cores, and keeps what was measured, so that a run that was ended goes on.

Fifty nights share their resampling weights, as all nights of a pipeline do; the next fifty have others. The nights of a
world depend on its name alone.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.worlds import World
from ratchet.contracts.gate import lower_is_better
from ratchet.contracts.repetition import Repetition
from ratchet.metrics.metrics import Measurement, measure
from ratchet.verdict.comparison import RESAMPLES, Comparison, compare
from ratchet.verdict.gain import relative_gain
from ratchet.verdict.gate_check.one_thread import one_thread_each
from ratchet.verdict.intervals import Percentiles, quantile
from ratchet.verdict.levels import compare_at
from ratchet.verdict.resampling import resample
from ratchet.verdict.student import expanded_tail

Counts = tuple[int, int, int]
ROOT = Path(__file__).resolve().parents[1]
CONFIDENCE, MARGIN = 0.95, 0.005
CHUNK = 50
LEAST = 0.02
"""With a verdict on a smaller share of nights, a cell gives none."""
_LEAST_BEFORE = 10
"""With fewer units the method of before concluded nothing."""
_STATISTICS = (
    "ratchet/metrics",
    "ratchet/verdict",
    "ratchet/contracts/repetition.py",
    "benchmarks/worlds.py",
    "benchmarks/units.py",
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is played. tries: of a night, each with another candidate. series: another one has other nights.

    named: whether the gate knows of the clusters. Where it does not, nothing is promised.
    """

    world: World
    nights: int
    tries: int = 1
    series: int = 1
    named: bool = True

    @property
    def chunks(self) -> "list[Chunk]":
        """The nights, in their order."""
        return [Chunk(cell=self, number=number) for number in range(-(-self.nights // CHUNK))]


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some nights of a cell. More nights of it have these too."""

    cell: Cell
    number: int

    @property
    def nights(self) -> int:
        """How many."""
        return min(CHUNK, self.cell.nights - self.number * CHUNK)

    @property
    def key(self) -> str:
        """What it is known by."""
        cell, unnamed = self.cell, "" if self.cell.named else " unnamed"
        return f"{cell.world} {cell.tries} {cell.series} {self.number} {self.nights}{unnamed}"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Shares of nights of a cell. before: promoted by percentiles alone. verdict: with one, whatever it is."""

    metric: str
    place: str
    gain: float
    tries: int
    series: int
    named: bool
    nights: int
    promoted: float
    before: float
    verdict: float

    @property
    def name(self) -> str:
        """The cell in words."""
        tries = f", {self.tries} tries" if self.tries > 1 else ""
        unnamed = "" if self.named else ", clusters not named"
        return f"{self.metric}, {self.place}, true gain {self.gain:.1%}{tries}{unnamed}"

    @property
    def allowed(self) -> float:
        """The share of false promotions that the confidence allows, and two standard errors."""
        return 1 - CONFIDENCE + 2 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / self.nights)

    @property
    def better(self) -> bool:
        """Whether the candidate is better by more than the margin, so that a promotion is right."""
        return self.gain > MARGIN

    @property
    def judged(self) -> bool:
        """Whether nights of this cell have a verdict."""
        return self.verdict > LEAST

    @property
    def holds(self) -> bool:
        """Whether the promise is kept, or nothing is promised."""
        return self.better or not self.named or not self.judged or self.promoted <= self.allowed


def play(cells: Sequence[Cell], *, workers: int, memory: Path | None = None) -> Iterator[tuple[Cell, Figures]]:
    """Each cell with its figures, as they become known. memory: a folder for the chunks that were played."""
    file = None if memory is None else _file(memory)
    seen = {} if file is None else _remembered(file)
    left = {cell: [chunk for chunk in cell.chunks if chunk.key not in seen] for cell in cells}
    yield from ((cell, _figures(cell, seen)) for cell in cells if not left[cell])
    if not any(left.values()):
        return
    with one_thread_each(), ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        waiting = {pool.submit(nights_of, chunk): chunk for cell in cells for chunk in left[cell]}
        for future in as_completed(waiting):
            chunk = waiting.pop(future)
            seen[chunk.key] = future.result()
            if file is not None:
                _remember(file, chunk, seen[chunk.key])
            left[chunk.cell].remove(chunk)
            if not left[chunk.cell]:
                yield chunk.cell, _figures(chunk.cell, seen)


def nights_of(chunk: Chunk) -> Counts:
    """Of the nights of a chunk those with a promotion, with one before, and with a verdict."""
    generator = np.random.default_rng([chunk.number, *chunk.key.encode()])
    found = [_night(chunk.cell, generator, chunk.number) for _ in range(chunk.nights)]
    promoted, before, verdict = (sum(column) for column in zip(*found, strict=True))
    return promoted, before, verdict


def _night(cell: Cell, generator: np.random.Generator, seed: int) -> tuple[bool, bool, bool]:
    metric = cell.world.metric
    lower = lower_is_better(metric)
    night = cell.world.night(generator, cell.tries)
    rows = night.rows if cell.named else replace(night.rows, cluster=None)
    base = measure(metric, rows, night.baseline)
    promoted = before = verdict = False
    for number, scores in enumerate(night.candidates, 1):
        ours = measure(metric, rows, scores)
        if ours is None or base is None:
            continue
        if cell.tries > 1:
            level = Repetition(number=number).level(CONFIDENCE)
            found = compare_at(ours, base, lower_is_better=lower, level=level, seed=seed)
        else:
            found = compare(ours, base, lower_is_better=lower, confidence=CONFIDENCE, seed=seed)
        verdict |= found.measurable
        promoted |= found.measurable and found.gain.low > MARGIN
        before |= _percentile(found, ours, base, lower=lower, seed=seed) > MARGIN
    return promoted, before, verdict


def _percentile(found: Comparison, ours: Measurement, base: Measurement, *, lower: bool, seed: int) -> float:
    """The lower bound as it was made for every metric before: by percentiles of the gain (Hesterberg 2015)."""
    units = min(ours.effective, base.effective)
    if units < _LEAST_BEFORE:
        return -math.inf
    if isinstance(found.bounds, Percentiles):
        draws = found.bounds.draws
    else:
        width = ours.sums.shape[1]
        totals = resample(np.hstack([ours.sums, base.sums]), resamples=RESAMPLES, seed=seed)
        one, other = ours.combine(totals[:, :width]), base.combine(totals[:, width:])
        draws = np.sort(relative_gain(one, other, lower_is_better=lower))
    return quantile(draws, expanded_tail(1 - CONFIDENCE, units))


def _figures(cell: Cell, seen: Mapping[str, Counts]) -> Figures:
    counts = np.array([seen[chunk.key] for chunk in cell.chunks]).sum(axis=0)
    promoted, before, verdict = (round(float(count) / cell.nights, 6) for count in counts)
    world = cell.world
    return Figures(
        metric=world.metric,
        place=world.place,
        gain=world.gain,
        tries=cell.tries,
        series=cell.series,
        named=cell.named,
        nights=cell.nights,
        promoted=promoted,
        before=before,
        verdict=verdict,
    )


def _remembered(file: Path) -> dict[str, Counts]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {key: tuple(counts) for key, counts in map(json.loads, lines)}


def _remember(file: Path, chunk: Chunk, counts: Counts) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps([chunk.key, counts]) + "\n")


def _file(memory: Path) -> Path:
    """The file of the statistics as they are now: what was measured with others is not taken."""
    digest = hashlib.sha256()
    for name in _STATISTICS:
        path = ROOT / name
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if "gate_check" not in source.parts:
                digest.update(source.read_bytes())
    return memory / f"{digest.hexdigest()[:12]}.jsonl"
