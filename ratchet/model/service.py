"""The candidate asked as a service asks it, before it can become a version: row by row, at once, and in another order.

A score that depends on what else is asked, or on how, is not the score that was judged. Where the layers read groups,
or a ranking's own code may use the rows of a group, a group is asked for at once.

A change here violates the promise of the project when a model is promoted whose scores in a service are not those that
the verdict was about.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts.gate import Register
from ratchet.contracts.judgements import TOO_SLOW, Service
from ratchet.contracts.quantities import show_memory
from ratchet.metrics.metrics import Floats
from ratchet.model.description import DESCRIPTION, group_of, needs_groups
from ratchet.model.holdout import Holdout
from ratchet.model.process import ModelProcess

ROWS = 200
"""Rows that are asked for; whole groups may be some more."""
_ROUNDS = 3
_LARGEST_SHARE = 1e-5
_OF_LARGEST = 1e-6
"""Differences that do not count where the pipeline's own code derives columns or is the network, or the layers read
groups: of a score, and of the largest one. Vectorised functions round the last bit of a number differently in an array
and alone, matrix products by the place of a row, and sums over a group by its order. All else gives equal bits."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Rows of the holdout by their places, sorted. bounds: where units begin among them, and the end."""

    places: NDArray[np.int64]
    bounds: NDArray[np.int64]
    unit: str


def by_group(objective: str, model: Path, *, derives: bool) -> bool:
    """Whether a score may depend on the rows of its group. model: its folder. derives: whether it has own columns."""
    return needs_groups((model / DESCRIPTION).read_bytes()) or (derives and objective == "ranking")


def may_round(model: Path, kind: str, *, derives: bool) -> bool:
    """Whether a score may differ in its last bits by what else is asked, see _LARGEST_SHARE. kind: train.model.kind."""
    return derives or ":" in kind or group_of((model / DESCRIPTION).read_bytes()) is not None


def score(model: ModelProcess, frame: pd.DataFrame, held: Holdout) -> Floats:
    """Scores of all held-out rows, day by day.

    No group reaches over midnight, and a champion may read groups of which tonight's pipeline knows nothing.

    frame: the rows, with the columns that the model reads.
    """
    if not held.places[1:]:
        return model.score(frame)
    ends = np.cumsum([len(places) for _, places in held.places])
    return model.score_each(frame, [0, *ends[:-1].tolist(), len(frame)], rounds=1)[0]


def sample_of(held: Holdout, group: str | None) -> Sample:
    """The rows to ask for. group: its column, if whole groups are asked for."""
    if group is None or held.rows.offsets is None:
        return draw(len(held.frame), None)
    return draw(len(held.frame), held.rows.offsets, held.frame[group].iloc[held.rows.offsets[:-1]])


def draw(rows: int, offsets: NDArray[np.int64] | None, names: pd.Series | None = None) -> Sample:
    """The rows to ask for, the same ones for the same holdout. offsets: where groups begin, if groups are asked for.

    names: of the groups. Of groups with one name, on several days, one is asked for: together they would be one group.
    """
    generator = np.random.default_rng(0)
    if offsets is None:
        places = np.sort(generator.permutation(rows)[:ROWS])
        return Sample(places=places, bounds=np.arange(len(places) + 1), unit="row")
    order = generator.permutation(len(offsets) - 1)
    if names is not None:
        order = order[~names.iloc[order].duplicated().to_numpy()]
    sizes = np.diff(offsets)[order]
    chosen = np.sort(order[: int(np.searchsorted(np.cumsum(sizes), ROWS)) + 1])
    places = np.concatenate([np.arange(offsets[group], offsets[group + 1]) for group in chosen])
    return Sample(places=places, bounds=np.append(0, np.cumsum(np.diff(offsets)[chosen])), unit="group")


def ask(model: ModelProcess, frame: pd.DataFrame, sample: Sample) -> tuple[Floats, Floats, Floats, Service]:
    """Scores of the sample's rows: each unit alone, all at once, all in another order; and what it took."""
    rows = frame.iloc[sample.places]
    alone, taken = model.score_each(rows, sample.bounds.tolist(), rounds=_ROUNDS)
    together = model.score(rows)
    shuffled = np.random.default_rng(1).permutation(len(rows))
    other = np.empty_like(together)
    other[shuffled] = model.score(rows.iloc[shuffled])
    slow = min(float(np.quantile(times, 0.99)) for times in taken)
    service = Service(rows=len(rows), unit=sample.unit, latency_ms=round(slow, 3), memory=model.memory.get("most"))
    return alone, together, other, service


def refusal(
    scores: Floats, asked: Sequence[Floats], service: Service, sample: Sample, limits: Register, *, rounds: bool
) -> tuple[str, str] | None:
    """Why a service must not have this model, as a short code and in words. scores: of all held-out rows.

    asked: alone, at once, in another order. rounds: whether code of the pipeline's
    own makes columns of the rows, or is the network, and may round the last bits.
    """
    expected = scores[sample.places]
    names = (f"its {sample.unit} alone", f"a batch of {len(expected)} rows", "the same batch in another order")
    for how, found in zip(names, asked, strict=True):
        if (row := _first_other(expected, found, rounds=rounds)) is not None:
            return "not-as-served", (
                f"held-out row {sample.places[row]} scores {_shown(found[row])} in {how}, and {_shown(expected[row])}"
                f" among all {len(scores):,} rows; a service would not give the scores that were measured"
            )
    if limits.max_latency_ms is not None and service.latency_ms > limits.max_latency_ms:
        allowed = f"register.max_latency_ms: {limits.max_latency_ms:g}"
        return TOO_SLOW, f"a {sample.unit} takes {service.latency_ms:.3g} ms (99th percentile); allowed: {allowed}"
    if limits.max_memory is not None:
        allowed = f"register.max_memory: {show_memory(limits.max_memory)}"
        if service.memory is None:
            return "memory-unknown", f"this system does not say how much memory it takes; allowed: {allowed}"
        if service.memory > limits.max_memory:
            return "too-large", f"it takes {show_memory(service.memory >> 20 << 20)} of memory; allowed: {allowed}"
    return None


def _first_other(expected: Floats, found: Floats, *, rounds: bool) -> int | None:
    """The first row whose score differs, if one does."""
    if found.shape != expected.shape:
        return 0
    both = np.isfinite(expected) & np.isfinite(found)
    far = np.where(both, np.abs(np.where(both, expected - found, 0.0)), np.inf)
    far[(expected == found) | (np.isnan(expected) & np.isnan(found))] = 0.0
    scale = np.where(both, np.maximum(np.abs(expected), np.abs(found)), 0.0)
    allowed = _LARGEST_SHARE * scale + _OF_LARGEST * scale.max(initial=0.0) if rounds else 0.0
    rows = np.flatnonzero((far > allowed).reshape(len(far), -1).any(axis=1))
    return int(rows[0]) if len(rows) else None


def _shown(score: NDArray[np.float64] | np.float64) -> str:
    return ", ".join(f"{value:.9g}" for value in np.atleast_1d(score))
