"""Simulates nights on the held-out rows of a run, to see whether the gate of its pipeline keeps its word.

A change here violates the promise of the project when a gate that promotes more often than it says passes its check.
"""

import math
import time
from collections.abc import Iterator

import numpy as np

from ratchet.contracts.errors import ConfigurationError
from ratchet.metrics.metrics import Floats
from ratchet.verdict.comparison import MIN_UNITS
from ratchet.verdict.gate_check import findings
from ratchet.verdict.gate_check.gate import GateKeys
from ratchet.verdict.gate_check.outcome import GateCheck, Point, Power, Rate, SliceHarm
from ratchet.verdict.gate_check.pair import Pair, gain
from ratchet.verdict.gate_check.plan import NEEDED, Plan, never_measurable, plan_of
from ratchet.verdict.gate_check.sample import Sample, pair_of
from ratchet.verdict.gate_check.scenarios import ATTEMPTS, Planted
from ratchet.verdict.gate_check.simulation import Progress, simulate
from ratchet.verdict.gate_check.slice_harm import Part, parts_of

_STEPS = 41
_USUAL = 0.8


def check_gate(
    sample: Sample,
    gate: GateKeys,
    *,
    nights: int,
    seed: int,
    workers: int,
    progress: Progress,
    seconds: float = math.inf,
) -> GateCheck:
    """Try the gate on nights that are drawn from the units of a sample, in about so many seconds.

    Raises ConfigurationError where there is nothing to try: both models equal, or too few units for any verdict.
    """
    started = time.monotonic()
    sample = sample.measurable(gate.metric)
    pair = _pair(sample, gate)
    parts = parts_of(sample, gate.metric)
    plan = plan_of(sample, gate, pair, parts, nights=nights, seed=seed)
    left = seconds - (time.monotonic() - started)
    seen = simulate(plan.scenarios, seed=seed, workers=workers, progress=progress, seconds=left, needed=NEEDED)
    unit = "clusters" if sample.rows.cluster is not None else "groups" if sample.rows.offsets is not None else "rows"
    power = _power(pair, gate, plan, seen)
    harms = tuple(_harm(part, times, gate, seen[name]) for name, (part, times) in plan.harms.items() if name in seen)
    never = tuple(part for part in parts if never_measurable(part))
    made = {name: (len(seen[name]) if name in seen else 0, asked) for name, (_, asked) in plan.scenarios.items()}
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
            *findings.of_time(made, gate.level, seconds, time.monotonic() - started),
        ),
        untried=tuple(plan.untried),
        cut=tuple(name for name, (some, _) in made.items() if not some),
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
    for attempts in ATTEMPTS if "repeated" in seen else ():
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
