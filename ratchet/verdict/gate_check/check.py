"""Simulates nights on the held-out rows of a run, to see whether the gate of its pipeline keeps its word.

A change here violates the promise of the project when a gate that promotes more often than it says passes its check.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ratchet.contracts.errors import ConfigurationError
from ratchet.contracts.quantities import percent
from ratchet.metrics.metrics import Floats
from ratchet.verdict.comparison import MIN_UNITS
from ratchet.verdict.gate_check import findings
from ratchet.verdict.gate_check.differences import design_effect, differences
from ratchet.verdict.gate_check.draws import Draws, Indices
from ratchet.verdict.gate_check.findings import Clusters
from ratchet.verdict.gate_check.gate import GateKeys
from ratchet.verdict.gate_check.outcome import GateCheck, Point, Power, Rate, SliceHarm
from ratchet.verdict.gate_check.pair import Pair, SummedPair, gain
from ratchet.verdict.gate_check.planting import planted, widened
from ratchet.verdict.gate_check.sample import Sample, pair_of
from ratchet.verdict.gate_check.scenarios import ATTEMPTS, AtMargin, Exchange, Planted, Repeat, Scenario, spread_of
from ratchet.verdict.gate_check.simulation import Progress, simulate
from ratchet.verdict.gate_check.slice_harm import HARMS, Part, harm, parts_of

LEAST_NIGHTS = 200
"""With fewer nights than this a rate says too little to fail or to pass."""
_ROW_NIGHTS = 20_000_000
"""Rows to measure again at most, where a metric is no sum over units: with many rows there are fewer nights."""
_FAR = 2.5
"""Standard errors above the margin: near the gain that four nights in five promote."""
_FEW = 5
"""Nights with many comparisons each (slices, repetition) are one in so many."""
_MIN_CLUSTERS = 50
"""Fewer values than this are the same ones every night, such as countries: they are no sample of a larger number."""
_LARGE_EFFECT = 1.2
_STEPS = 41
_USUAL = 0.8


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that is tried. scenarios: with their nights, by name. untried: what cannot be, with why."""

    scenarios: dict[str, tuple[Scenario, int]]
    harms: dict[str, tuple[Part, int]]
    clusters: tuple[Clusters, ...]
    spread: float
    far: float
    untried: tuple[str, ...]


def check_gate(
    sample: Sample, gate: GateKeys, *, nights: int, seed: int, workers: int, progress: Progress
) -> GateCheck:
    """Try the gate on nights that are drawn from the units of a sample.

    Raises ConfigurationError where there is nothing to try: both models equal, or too few units for any verdict.
    """
    started = time.monotonic()
    sample = sample.measurable(gate.metric)
    pair = _pair(sample, gate)
    parts = parts_of(sample, gate.metric)
    draws = Draws.single(pair.units)
    most = nights if isinstance(pair, SummedPair) else min(nights, _ROW_NIGHTS // len(sample.rows.label))
    plan = _plan(sample, gate, pair, parts, draws, max(LEAST_NIGHTS, most), seed)
    seen = simulate(plan.scenarios, seed=seed, workers=workers, progress=progress)
    unit = "clusters" if sample.rows.cluster is not None else "groups" if sample.rows.offsets is not None else "rows"
    power = _power(pair, gate, plan, seen)
    harms = tuple(_harm(part, times, gate, seen[name]) for name, (part, times) in plan.harms.items())
    never = tuple(part for part in parts if not _measurable(part))
    return GateCheck(
        run_id=sample.run_id,
        day=sample.day,
        metric=gate.metric,
        baseline_kind=sample.baseline_kind,
        confidence=gate.confidence,
        min_gain=gate.min_gain,
        units=pair.units,
        unit=unit,
        rates=tuple(_rates(gate, seen)),
        power=power,
        harms=harms,
        findings=(
            *findings.of_data(sample, pair, unit, plan.clusters),
            *findings.of_keys(gate, power),
            *findings.of_slices(sample, parts, never, harms),
        ),
        untried=plan.untried,
        seconds=round(time.monotonic() - started, 1),
    )


def _pair(sample: Sample, gate: GateKeys) -> Pair:
    if sample.equal:
        raise ConfigurationError(
            f"equal-models: candidate and production give each row of run {sample.run_id} the same score, so there is"
            " nothing to simulate",
            remedy="name an older run, in which they differ, with --run",
        )
    pair = pair_of(sample, gate.metric)
    if pair is None or pair.units < MIN_UNITS:
        units = pair.units if pair else 0
        raise ConfigurationError(
            f"too-few-units: {gate.metric} can be measured on {units} units of run {sample.run_id}, and no verdict"
            f" rests on fewer than {MIN_UNITS}",
            remedy=findings.DAYS,
        )
    return pair


def _plan(
    sample: Sample, gate: GateKeys, pair: Pair, parts: tuple[Part, ...], draws: Draws, nights: int, seed: int
) -> Plan:
    spread = spread_of(pair, draws, nights=LEAST_NIGHTS, seed=seed)
    scenarios: dict[str, tuple[Scenario, int]] = {"exchanged": (Exchange(pair=pair, draws=draws, gate=gate), nights)}
    untried = []
    at_margin = planted(pair, gate.min_gain, spread=spread)
    far, at_far = _far(pair, gate, spread)
    if at_margin and at_far:
        powerful = Planted(at_margin=at_margin, at_far=at_far, far=far, draws=draws, gate=gate)
        scenarios["at-margin"] = (powerful, nights)
    elif at_margin:
        scenarios["at-margin"] = (AtMargin(pair=at_margin, draws=draws, gate=gate), nights)
        untried.append(f"power: no model has a gain of {percent(far, signed=True)}")
    else:
        untried.append(f"at-margin: no model can be made with a gain of {percent(gate.min_gain, signed=True)}")
    clusters = tuple(_clusters(sample, pair, seed))
    for one, codes in clusters:
        whole = Draws.clustered(codes)
        scenarios[f"exchanged by {one.column}"] = (Exchange(pair=pair, draws=whole, gate=gate), nights)
        if at_margin:
            scenarios[f"at-margin by {one.column}"] = (AtMargin(pair=at_margin, draws=whole, gate=gate), nights)
    confidences = tuple(gate.of_attempt(number) for number in range(1, max(ATTEMPTS) + 1))
    few = max(LEAST_NIGHTS, nights // _FEW)
    scenarios["repeated"] = (Repeat(pair=widened(pair), draws=draws, gate=gate, confidences=confidences), few)
    harms = {}
    for name, part, number, times in _harmed(parts):
        scenario = harm(parts, number, times * gate.max_slice_loss, draws, gate)
        if scenario is None:
            untried.append(f"{name}: no model can be made with this loss")
        else:
            scenarios[name], harms[name] = (scenario, LEAST_NIGHTS), (part, times)
    return Plan(
        scenarios=scenarios,
        harms=harms,
        clusters=tuple(one for one, _ in clusters),
        spread=spread,
        far=far,
        untried=tuple(untried),
    )


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


def _harmed(parts: tuple[Part, ...]) -> Iterator[tuple[str, Part, int, int]]:
    """Of each slice column the value of middle size that can be measured, with each harm."""
    for column in dict.fromkeys(part.column for part in parts):
        known = [(number, part) for number, part in enumerate(parts) if part.column == column and _measurable(part)]
        if known:
            number, part = sorted(known, key=lambda one: one[1].rows)[len(known) // 2]
            for times in HARMS:
                yield f"{column}={part.value} at {times} times", part, number, times


def _measurable(part: Part) -> bool:
    measured = part.pair.whole if part.pair else None
    return measured is not None and min(one.effective for one in measured) >= MIN_UNITS


_MEANINGS = {
    "exchanged": "candidate and production change places at random, neither is better",
    "at-margin": "the candidate is better by exactly the margin, and differs from production as it really does",
}


def _rates(gate: GateKeys, seen: dict[str, Floats]) -> Iterator[Rate]:
    for name, found in seen.items():
        kind, _, column = name.partition(" by ")
        if kind in _MEANINGS:
            meaning = _MEANINGS[kind] + (f"; all rows of one {column} are drawn together" if column else "")
            count = int(found[:, 0].sum())
            yield Rate(name=name, meaning=meaning, count=count, nights=len(found), level=gate.level)
    for attempts in ATTEMPTS:
        first = seen["repeated"][:, 0]
        yield Rate(
            name=f"repeated {attempts} times",
            meaning=f"one night is run {attempts} times with candidates that are no better; promoted at least once",
            count=int((first <= attempts).sum()),
            nights=len(first),
            level=gate.level,
        )


def _power(pair: Pair, gate: GateKeys, plan: Plan, seen: dict[str, Floats]) -> Power | None:
    scenario, _ = plan.scenarios.get("at-margin", (None, 0))
    if not isinstance(scenario, Planted):
        return None
    found = seen["at-margin"]
    needed, margin = found[:, 1], gate.min_gain
    gains = margin + np.linspace(0, 2 * (plan.far - margin), _STEPS)
    visible = float(np.quantile(needed, _USUAL, method="inverted_cdf"))
    measured = pair.whole
    return Power(
        points=tuple(Point(gain=float(one), share=float((needed < one).mean())) for one in gains),
        visible=visible if math.isfinite(visible) else None,
        observed=gain(measured, gate.metric) if measured else 0.0,
        spread=plan.spread,
        nights=len(needed),
    )


def _harm(part: Part, times: int, gate: GateKeys, found: Floats) -> SliceHarm:
    return SliceHarm(
        column=part.column,
        value=part.value,
        units=part.pair.units if part.pair else 0,
        loss=times * gate.max_slice_loss,
        times=times,
        stopped=int(found[:, 0].sum()),
        nights=len(found),
    )
