"""A candidate that is worse on one slice: how often the gate stops it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ratchet.contracts.gate import family
from ratchet.metrics.metrics import OF_RANKS
from ratchet.verdict.gate_check.draws import Draws, Indices, Night
from ratchet.verdict.gate_check.gate import GateKeys
from ratchet.verdict.gate_check.outcome import titled
from ratchet.verdict.gate_check.pair import Pair
from ratchet.verdict.gate_check.planting import planted
from ratchet.verdict.gate_check.sample import Sample, pair_of
from ratchet.verdict.gate_check.scenarios import spread_of
from ratchet.verdict.guards import judge_slices
from ratchet.verdict.masks import SliceRows
from ratchet.verdict.slices import SliceComparison, compared_slice

HARMS = (1, 2, 3)
"""The true loss of the slice, in gate.max_slice_loss."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """A slice. pair: None where the metric has no value. place: [units] in the pair, -1: not in."""

    column: str
    value: str
    rows: int
    pair: Pair | None
    place: Indices

    @classmethod
    def of(cls, sample: Sample, metric: str, given: SliceRows) -> Self:
        """The rows of a slice; a metric of ranks takes the whole groups that have one of them."""
        taken = sample.rows.whole_groups(given.mask) if family(metric) in OF_RANKS else given.mask
        starts = sample.unit_offsets[:-1]
        present = np.logical_or.reduceat(taken, starts) if len(starts) else np.zeros(0, bool)
        return cls(
            column=given.column,
            value=given.value,
            rows=int(taken.sum()),
            pair=pair_of(sample.select(taken), metric) if taken.any() else None,
            place=np.where(present, np.cumsum(present) - 1, -1),
        )

    @property
    def title(self) -> str:
        """What people call it."""
        return titled(self.column, self.value)

    def compared(self, night: Night, gate: GateKeys) -> SliceComparison:
        """What evaluate would compare on this night."""
        place = self.place[night.units]
        inside = place >= 0
        here = Night(units=place[inside], block=night.block[inside], blocks=night.blocks)
        measured = self.pair.measure(here) if self.pair and len(here.units) else None
        ours, theirs = measured or (None, None)
        compared = gate.of_slice(measured) if measured else None
        return compared_slice(self.column, self.value, self.rows, ours, theirs, compared)


@dataclass(frozen=True, kw_only=True, eq=False)
class Harm:
    """A candidate that loses on part number `harmed` of all parts. Seen: 1 if the gate withholds it for this slice."""

    parts: tuple[Part, ...]
    harmed: int
    draws: Draws
    gate: GateKeys

    def night(self, generator: np.random.Generator) -> tuple[float, ...]:
        """Whether the slice is judged as lost, or as not proven where that is enough."""
        night = self.draws.draw(generator)
        compared = [part.compared(night, self.gate) for part in self.parts]
        judged = judge_slices(compared, max_loss=self.gate.max_slice_loss, confidence=self.gate.confidence)
        outcome = judged[self.harmed].outcome
        blocked = outcome == "not-provable" and self.gate.unproven_slices == "block"
        return (float(outcome == "failed" or blocked),)


def parts_of(sample: Sample, metric: str) -> tuple[Part, ...]:
    """Every slice that evaluate judges."""
    return tuple(Part.of(sample, metric, one) for one in sample.slices)


def harms(parts: tuple[Part, ...], number: int, draws: Draws, gate: GateKeys) -> Iterator[tuple[int, Harm | None]]:
    """A scenario for each of HARMS, in which one part truly loses so much; None where no shift leads to it."""
    part = parts[number]
    if part.pair is None:
        return
    spread = spread_of(part.pair, Draws.single(part.pair.units), seed=gate.seed)
    for times in HARMS:
        worse = planted(part.pair, -times * gate.max_slice_loss, spread=spread)
        changed = (*parts[:number], replace(part, pair=worse), *parts[number + 1 :])
        yield times, Harm(parts=changed, harmed=number, draws=draws, gate=gate) if worse else None
