"""Everything that is tried on the units of a run: scenarios with their nights, and what cannot be tried, with why."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from ratchet.contracts.quantities import percent
from ratchet.verdict.comparison import MIN_UNITS
from ratchet.verdict.gate_check.differences import design_effect, differences
from ratchet.verdict.gate_check.draws import Draws, Indices
from ratchet.verdict.gate_check.findings import Clusters
from ratchet.verdict.gate_check.gate import GateKeys
from ratchet.verdict.gate_check.pair import Pair
from ratchet.verdict.gate_check.planting import planted, widened
from ratchet.verdict.gate_check.sample import Sample
from ratchet.verdict.gate_check.scenarios import ATTEMPTS, AtMargin, Exchange, Planted, Repeat, Scenario, spread_of
from ratchet.verdict.gate_check.simulation import LEAST_NIGHTS
from ratchet.verdict.gate_check.slice_harm import Part, harms

NEEDED = frozenset({"exchanged", "at-margin"})
"""A check without these is no pass."""
_FAR = 2.5
"""Standard errors above the margin: near the gain that four nights in five promote."""
_FEW = 5
"""Nights with many comparisons each (repetition) are one in so many."""
_MIN_CLUSTERS = 50
"""Fewer values than this are the same ones every night, such as countries: they are no sample of a larger number."""
_LARGE_EFFECT = 1.2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is tried. scenarios: with their nights, by name. harms: which slice loses how many times what is allowed.

    clusters: columns by which nights are drawn too. spread: the standard error of a night's gain. far: the larger one
    of the two planted gains. untried: what cannot be, with why.
    """

    spread: float
    far: float
    clusters: tuple[Clusters, ...]
    scenarios: dict[str, tuple[Scenario, int]] = field(default_factory=dict)
    harms: dict[str, tuple[Part, int]] = field(default_factory=dict)
    untried: list[str] = field(default_factory=list)


def plan_of(sample: Sample, gate: GateKeys, pair: Pair, parts: tuple[Part, ...], *, nights: int, seed: int) -> Plan:
    """The plan of a check. nights: of each scenario that makes one comparison a night."""
    draws = Draws.single(pair.units)
    spread = spread_of(pair, draws, seed=seed)
    far, at_far = _far(pair, gate, spread)
    found = tuple(_clusters(sample, pair, seed))
    plan = Plan(spread=spread, far=far, clusters=tuple(one for one, _ in found))
    plan.scenarios["exchanged"] = (Exchange(pair=pair, draws=draws, gate=gate), nights)
    at_margin = planted(pair, gate.min_gain, spread=spread)
    if at_margin and at_far:
        powerful = Planted(at_margin=at_margin, at_far=at_far, far=far, draws=draws, gate=gate)
        plan.scenarios["at-margin"] = (powerful, nights)
    elif at_margin:
        plan.scenarios["at-margin"] = (AtMargin(pair=at_margin, draws=draws, gate=gate), nights)
        plan.untried.append(f"power: no model has a gain of {percent(far, signed=True)}")
    else:
        plan.untried.append(f"at-margin: no model can be made with a gain of {percent(gate.min_gain, signed=True)}")
    for one, codes in found:
        whole = Draws.clustered(codes)
        plan.scenarios[f"exchanged by {one.column}"] = (Exchange(pair=pair, draws=whole, gate=gate), nights)
        if at_margin:
            plan.scenarios[f"at-margin by {one.column}"] = (AtMargin(pair=at_margin, draws=whole, gate=gate), nights)
    _harm(plan, parts, draws, gate)
    confidences = tuple(gate.of_attempt(number) for number in range(1, max(ATTEMPTS) + 1))
    few = max(LEAST_NIGHTS, nights // _FEW)
    plan.scenarios["repeated"] = (Repeat(pair=widened(pair), draws=draws, gate=gate, confidences=confidences), few)
    return plan


def never_measurable(part: Part) -> bool:
    """Whether a slice has too few units on any night."""
    measured = part.pair.whole if part.pair else None
    return measured is None or min(one.effective for one in measured) < MIN_UNITS


def _harm(plan: Plan, parts: tuple[Part, ...], draws: Draws, gate: GateKeys) -> None:
    """Of each slice column the value of middle size that can be measured, with each harm."""
    for column in dict.fromkeys(part.column for part in parts):
        known = [number for number, part in enumerate(parts) if part.column == column and not never_measurable(part)]
        if not known:
            continue
        number = sorted(known, key=lambda one: parts[one].rows)[len(known) // 2]
        for times, scenario in harms(parts, number, draws, gate):
            name = f"{parts[number].title} at {times} times"
            if scenario is None:
                plan.untried.append(f"{name}: no model can be made with this loss")
            else:
                plan.scenarios[name] = (scenario, LEAST_NIGHTS)
                plan.harms[name] = (parts[number], times)


def _far(pair: Pair, gate: GateKeys, spread: float) -> tuple[float, Pair | None]:
    """A gain that most nights see, or half of it and so on where no model can have it; and its pair."""
    step = _FAR * spread
    if not math.isfinite(step) or step <= 0:
        return gate.min_gain, None
    for _ in range(4):
        if found := planted(pair, gate.min_gain + step, spread=spread):
            return gate.min_gain + step, found
        step /= 2
    return gate.min_gain + step, None


def _clusters(sample: Sample, pair: Pair, seed: int) -> Iterator[tuple[Clusters, Indices]]:
    """The columns by which the units vary together, the largest effect first."""
    values = differences(pair)
    if values is None:
        return
    found = []
    for name, column in sample.others.items():
        codes = sample.by_unit(column)
        if codes is None or len(codes) != len(values):
            continue
        draws = Draws.clustered(codes)
        if not _MIN_CLUSTERS <= draws.blocks < len(codes):
            continue
        effect = design_effect(values, draws, seed)
        if effect is not None and effect > _LARGE_EFFECT:
            found.append((Clusters(column=name, blocks=draws.blocks, effect=effect), codes))
    yield from sorted(found, key=lambda one: -one[0].effect)[:2]
