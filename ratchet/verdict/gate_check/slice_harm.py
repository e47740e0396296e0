"""A candidate that is worse on one slice: how often the gate stops it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts.gate import family
from ratchet.metrics.metrics import OF_RANKS
from ratchet.verdict.gate_check.draws import Draws, Indices, Night
from ratchet.verdict.gate_check.gate import GateKeys
from ratchet.verdict.gate_check.pair import Pair
from ratchet.verdict.gate_check.planting import planted
from ratchet.verdict.gate_check.sample import Column, Sample, pair_of
from ratchet.verdict.gate_check.scenarios import spread_of
from ratchet.verdict.guards import judge_slices
from ratchet.verdict.masks import MAX_VALUES, MISSING, OTHER
from ratchet.verdict.slices import SliceComparison

_NIGHTS = 200
HARMS = (1, 2, 3)
"""The true loss of the slice, in gate.max_slice_loss."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One value of a slice column. pair: None where the metric has no value. place: [units] in the pair, -1: not in."""

    column: str
    value: str
    rows: int
    pair: Pair | None
    place: Indices

    @classmethod
    def of(cls, sample: Sample, metric: str, column: str, value: str, mask: NDArray[np.bool_]) -> Self:
        """The rows of a mask; a metric of ranks takes the whole groups that have one of them."""
        taken = sample.rows.whole_groups(mask) if family(metric) in OF_RANKS else mask
        starts = sample.unit_offsets[:-1]
        present = np.logical_or.reduceat(taken, starts) if len(starts) else np.zeros(0, bool)
        return cls(
            column=column,
            value=value,
            rows=int(taken.sum()),
            pair=pair_of(sample.select(taken), metric) if taken.any() else None,
            place=np.where(present, np.cumsum(present) - 1, -1),
        )

    def compared(self, night: Night, gate: GateKeys) -> SliceComparison:
        """What evaluate would compare on this night."""
        place = self.place[night.units]
        inside = place >= 0
        here = Night(units=place[inside], block=night.block[inside], blocks=night.blocks)
        measured = self.pair.measure(here) if self.pair and len(here.units) else None
        compared = gate.comparison(measured) if measured else None
        return SliceComparison(
            column=self.column,
            value=self.value,
            rows=self.rows,
            candidate=measured[0].value if measured else None,
            baseline=measured[1].value if measured else None,
            comparison=compared if compared and compared.measurable else None,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Harm:
    """A candidate that loses on part number `harmed` of all parts. Seen: 1 if the gate stops it for this slice."""

    parts: tuple[Part, ...]
    harmed: int
    draws: Draws
    gate: GateKeys

    def night(self, generator: np.random.Generator) -> tuple[float, ...]:
        """Whether the slice is judged as lost."""
        night = self.draws.draw(generator)
        compared = [part.compared(night, self.gate) for part in self.parts]
        judged = judge_slices(compared, max_loss=self.gate.max_slice_loss, confidence=self.gate.confidence)
        return (float(judged[self.harmed].outcome == "failed"),)


def parts_of(sample: Sample, metric: str) -> tuple[Part, ...]:
    """Every slice that evaluate judges."""
    return tuple(
        Part.of(sample, metric, name, value, mask)
        for name, column in sample.slices.items()
        for value, mask in _masks(column)
    )


def harm(parts: tuple[Part, ...], number: int, loss: float, draws: Draws, gate: GateKeys) -> Harm | None:
    """The scenario in which one part truly loses this much; None where no shift leads to it."""
    part = parts[number]
    if part.pair is None:
        return None
    spread = spread_of(part.pair, Draws.single(part.pair.units), nights=_NIGHTS, seed=gate.seed)
    worse = planted(part.pair, -loss, spread=spread)
    if worse is None:
        return None
    changed = (*parts[:number], replace(part, pair=worse), *parts[number + 1 :])
    return Harm(parts=changed, harmed=number, draws=draws, gate=gate)


def _masks(column: Column) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    counts = np.bincount(column.codes[column.codes >= 0], minlength=len(column.values))
    order = sorted(range(len(counts)), key=lambda code: (-counts[code], column.values[code]))
    order = [code for code in order if counts[code]]
    yield from ((column.values[code], column.codes == code) for code in order[:MAX_VALUES])
    if order[MAX_VALUES:]:
        yield OTHER, np.isin(column.codes, order[MAX_VALUES:])
    if (column.codes < 0).any():
        yield MISSING, column.codes < 0
