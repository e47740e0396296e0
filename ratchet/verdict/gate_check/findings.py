"""Warnings about a gate and its data, by name."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ratchet.contracts.gate import family
from ratchet.contracts.quantities import percent
from ratchet.verdict.gate_check.differences import differences, kurtosis, skew_error
from ratchet.verdict.gate_check.gate import GateKeys
from ratchet.verdict.gate_check.outcome import Finding, Power, SliceHarm
from ratchet.verdict.gate_check.pair import Pair
from ratchet.verdict.gate_check.sample import Sample
from ratchet.verdict.gate_check.slice_harm import Part

FEW_UNITS, FEW_POSITIVES = 50, 50
_SKEW = 0.01
"""An error of the interval by skew alone that is worth a warning: a fifth of 5 %."""
_KURTOSIS = 0.1
"""Kurtosis by unit above which the variance of the gain is itself hardly known."""
_SURE, _UNSURE = 0.999, 0.8
_INVISIBLE, _SEEN = 0.2, 0.8
_OF_POSITIVES = frozenset({"auc", "pr_auc"})
_SHOWN = 5
DAYS = "raise evaluate.holdout_days"


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """A column whose rows vary together. effect: the variance of the gain over that with independent units."""

    column: str
    blocks: int
    effect: float


def of_data(sample: Sample, pair: Pair, unit: str, clusters: tuple[Clusters, ...]) -> Iterator[Finding]:
    """What the units are like."""
    measured = pair.whole
    effective = min(one.effective for one in measured) if measured else 0
    positives = family(pair.metric) in _OF_POSITIVES
    if pair.units < FEW_UNITS or (effective < FEW_UNITS and not positives):
        text = f"only {min(pair.units, effective)} {unit} tell the models apart; fewer than {FEW_UNITS} decide little"
        yield Finding(name="too-few-units", text=text, remedy=DAYS)
    rarer = int(min((sample.rows.label > 0).sum(), (sample.rows.label <= 0).sum()))
    if positives and rarer < FEW_POSITIVES:
        text = f"only {rarer} rows have the rarer label, on which {pair.metric} rests"
        yield Finding(name="few-positives", text=text, remedy=f"{DAYS} until there are {FEW_POSITIVES} or more")
    yield from _tail(pair, unit)
    for one in clusters:
        yield Finding(
            name="clusters",
            text=f"the {unit} of one {one.column} vary together: the variance of the gain is {one.effect:.1f} times"
            f" that of independent {unit} ({one.blocks} values of {one.column})",
            remedy=f"set evaluate.cluster to {one.column}",
        )


def of_keys(gate: GateKeys, power: Power | None) -> Iterator[Finding]:
    """What the keys of the gate mean on these data."""
    if gate.confidence < _UNSURE:
        text = (
            f"gate.confidence {percent(gate.confidence)} is the confidence, not the error that one accepts: a candidate"
            f" that is no better is promoted on {percent(round(1 - gate.confidence, 4))} of the nights"
        )
        yield Finding(name="confidence-misread", text=text, remedy="set gate.confidence to 95%")
    elif gate.confidence > _SURE:
        text = f"gate.confidence {percent(gate.confidence)} asks for a far larger gain than 95 % does"
        yield Finding(name="confidence-misread", text=text, remedy="set gate.confidence to 95% or 99%")
    if power is None:
        return
    twice = 2 * gate.min_gain
    if gate.min_gain and power.at(twice) < _INVISIBLE:
        text = (
            f"a candidate that is better by twice the margin ({percent(twice, signed=True)}) is promoted on"
            f" {percent(round(power.at(twice), 3))} of the nights only"
        )
        remedy = f"{DAYS}, or accept that only gains of {_seen(power)} or more are found"
        yield Finding(name="margin-invisible", text=text, remedy=remedy)


def of_slices(
    sample: Sample, parts: tuple[Part, ...], never: tuple[Part, ...], harms: tuple[SliceHarm, ...]
) -> Iterator[Finding]:
    """What the gate can see of the slices. never: those that no night can measure."""
    if never:
        named = ", ".join(part.title for part in never[:_SHOWN])
        more = f" and {len(never) - _SHOWN} more" if len(never) > _SHOWN else ""
        text = f"{len(never)} of {len(parts)} slices have too few units to be measured on any night: {named}{more}"
        yield Finding(name="slice-never-measurable", text=text, remedy=f"{DAYS}, or slice by a coarser column")
    for one in harms:
        if one.times == max(harm.times for harm in harms) and one.share < _SEEN:
            text = (
                f"a loss of {percent(one.loss)} on {one.title} ({one.times} times gate.max_slice_loss) is"
                f" stopped on {percent(round(one.share, 3))} of the nights only"
            )
            yield Finding(name="slice-loss-invisible", text=text, remedy=f"{DAYS}, or have fewer slices")
    if sample.unread:
        text = f"evaluate.slices {', '.join(sample.unread)}: computed by the pipeline's own code, not tried here"
        yield Finding(name="slice-not-tried", text=text, remedy="read these slices on the report page of a night")


def of_time(made: Mapping[str, tuple[int, int]], level: float, allowed: float, took: float) -> Iterator[Finding]:
    """Nights that the time was too short for. made: by scenario, and how many were asked for."""
    some, asked = min(((made[name] for name in ("exchanged", "at-margin") if name in made)), key=lambda one: one[0])
    wanted = sum(one for _, one in made.values())
    whole = sum(one for one, _ in made.values())
    if whole >= wanted:
        return
    error = math.sqrt(level * (1 - level) / some)
    text = (
        f"{allowed:.0f} s allowed {some:,} of {asked:,} nights: a rate of {percent(round(level, 4))} has a"
        f" standard error of {percent(round(error, 4))}"
    )
    needed = math.ceil(took * wanted / whole / 60) * 60
    yield Finding(name="fewer-nights", text=text, remedy=f"give --seconds {needed} to have all of them, or more cores")


def _tail(pair: Pair, unit: str) -> Iterator[Finding]:
    values = differences(pair)
    if values is None or not values.any():
        return
    error, heavy = skew_error(values), kurtosis(values)
    if abs(error) < _SKEW and heavy < _KURTOSIS * len(values):
        return
    few = np.sort(np.square(values - values.mean()))[::-1]
    top = max(1, len(few) // 100)
    text = (
        f"the differences between the models have a heavy tail: the {top} most different of {len(few)} {unit} make"
        f" {percent(round(float(few[:top].sum() / few.sum()), 3))} of the variance of the gain (skew alone moves the"
        f" share of false promotions by {percent(round(error, 3), signed=True)})"
    )
    yield Finding(
        name="heavy-tail", text=text, remedy=f"{DAYS}, or decide on a metric with bounds, as mae of log labels"
    )


def _seen(power: Power) -> str:
    return percent(round(power.visible, 4), signed=True) if power.visible is not None else "more than can be planted"
