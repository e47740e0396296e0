"""The figures of a check as lines for a terminal, and as plain values for programs."""

from collections.abc import Iterator
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from ratchet.contracts.quantities import percent
from ratchet.verdict.gate_check.outcome import GateCheck, Power

_WIDTH = 100
_MULTIPLES = (0.5, 1.0, 1.5, 2.0)
"""Gains of the short power table, in distances of the visible gain from the margin."""


def in_words(pipeline: str, found: GateCheck) -> Iterator[str]:
    """Everything, in the order in which one asks: are promotions right, what is seen, what is wrong, the answer."""
    yield (
        f"{pipeline}: nights like {found.day} (run {found.run_id}): {found.metric}, {found.units:,} {found.unit};"
        f" margin {percent(found.min_gain)}, confidence {percent(found.confidence)}"
    )
    if found.baseline_kind == "constant":
        yield "the run had no production to beat: the candidate is compared with a constant scorer"
    yield ""
    yield from _table(
        ("false promotions", "nights", "promoted", "allowed", "fails above", ""),
        [
            (
                rate.name,
                f"{rate.nights:,}",
                share(rate.share),
                share(rate.level),
                share(rate.limit),
                "FAILED" if rate.failed else "",
            )
            for rate in found.rates
        ],
    )
    if found.power:
        yield ""
        yield from _power(found.power)
    if found.harms:
        yield ""
        yield from _table(
            ("true loss of a slice", "nights", "stopped"),
            [(f"{one.title}: {percent(-one.loss)}", f"{one.nights:,}", share(one.share)) for one in found.harms],
        )
    for text in (*found.untried, *(f"{name}: no time was left" for name in found.cut)):
        yield from _wrapped(f"not tried: {text}")
    if found.findings:
        yield ""
    for finding in found.findings:
        yield from _wrapped(f"warning {finding.name}: {finding.text}; to do: {finding.remedy}")
    yield ""
    yield from _wrapped(answer(found))


def answer(found: GateCheck) -> str:
    """One sentence."""
    if found.failed:
        worst = max(found.failed, key=lambda rate: rate.share - rate.limit)
        names = ", ".join(finding.name for finding in found.findings)
        return (
            f"FAILED: the gate promotes a candidate that is no better than the margin on {share(worst.share)} of the"
            f" nights ({worst.name}), and says {percent(worst.level)} at most ({found.seconds:.0f} s)"
            + (f"; warnings: {names}" if names else "")
        )
    if found.cut:
        cut = ", ".join(found.cut)
        return f"NOT CHECKED: no time was left for {cut}; what was tried keeps gate.confidence ({found.seconds:.0f} s)"
    if not found.passed:
        return "NOT CHECKED: no candidate could be made that is better by exactly the margin, so nothing is shown"
    return f"passed: no more false promotions than gate.confidence allows ({found.seconds:.0f} s)"


def share(value: float) -> str:
    """A share of nights: 4.9 %."""
    return f"{100 * value:.1f} %"


def as_json(found: GateCheck) -> dict[str, Any]:
    """Plain values, with what follows from them."""
    rates = [{**asdict(rate), "share": rate.share, "limit": rate.limit, "failed": rate.failed} for rate in found.rates]
    harms = [{**asdict(one), "share": one.share} for one in found.harms]
    return {
        **asdict(found),
        "day": found.day.isoformat(),
        "passed": found.passed,
        "answer": answer(found),
        "rates": rates,
        "harms": harms,
    }


def _power(power: Power) -> Iterator[str]:
    gains = _gains(power)
    yield from _table(
        ("true gain", "promoted"), [(percent(gain, signed=True), share(power.at(gain))) for gain in gains]
    )
    if power.visible is None:
        yield "no gain that could be planted is promoted on four nights in five"
    else:
        yield f"four nights in five promote a true gain of {percent(round(power.visible, 4), signed=True)} or more"
    yield (
        f"the gain of the run is {percent(round(power.observed, 4), signed=True)}; if it were the true one,"
        f" {share(power.at(power.observed))} of the nights would promote"
    )


def _gains(power: Power) -> list[float]:
    points = power.points
    margin = points[0].gain
    top = power.visible if power.visible is not None else points[-1].gain
    return [margin, *(round(margin + one * (top - margin), 4) for one in _MULTIPLES)]


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for cells in (headings, *rows):
        first, *more = zip(cells, widths, strict=True)
        line = "  ".join([f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in more)])
        yield line.rstrip()


def _wrapped(text: str) -> Iterator[str]:
    yield from wrap(text, _WIDTH, subsequent_indent="  ")
