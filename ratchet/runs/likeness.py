"""How like a rebuild is to the version: weights, scores and metric, and the first step at which the trainings part.

Equal digests need no library. By how much something differs is measured with numpy and pyarrow, where these are here.

A change here violates the promise of the project when a rebuild is called bit-equal although a weight or a score of it
has other bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.contracts import summaries
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.reproduction import Likeness
from ratchet.contracts.result import Artifact, StageResult
from ratchet.contracts.stages import Stage
from ratchet.contracts.version_record import VersionRecord
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store
from ratchet.store.cache import scratch


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The fields are those of `contracts.reproduction.Reproduction`."""

    likeness: Likeness
    weights_differ: float | None = None
    scores_differ: float | None = None
    metric_differs: float | None = None
    arrays_differ: str = ""
    training: Stage | None = None
    first_step: int | None = None


def compare(
    store: Store, record: VersionRecord, rebuilt: Mapping[Stage, StageResult], *, tolerance: float
) -> Comparison:
    """Compare what the stages of a rebuild have published with the record, and with what it names where it differs."""
    judged = summaries.judgement(rebuilt["evaluate"])
    metric = _of_metric(record, judged.candidate_metrics)
    others = [stage for stage in record.weights if rebuilt[stage].content != record.stages[stage].content]
    if not others and judged.scores == record.judgement.scores:
        return Comparison(likeness="bit-equal", weights_differ=0.0, scores_differ=0.0, metric_differs=metric)
    with scratch() as folder:
        apart = [
            _of_weights(
                _file(store, record.weights[stage], folder), _file(store, rebuilt[stage].outputs["weights"], folder)
            )
            for stage in others
        ]
        known = [value for value in apart if value is not None]
        weights = max(known, default=0.0) if len(known) == len(apart) else None
        step = None
        if others:  # the measured training is the first of them
            made = rebuilt[others[0]].outputs
            step = _first_step(_file(store, record.traces.get(others[0]), folder), _file(store, made["trace"], folder))
        given = rebuilt["evaluate"].outputs["scores"]
        scores = _of_scores(_file(store, record.scores, folder), _file(store, given, folder))
    near = all(value is not None and value <= tolerance for value in (weights, scores, metric))
    return Comparison(
        likeness="within-tolerance" if near else "diverged",
        weights_differ=weights,
        scores_differ=scores,
        metric_differs=metric,
        arrays_differ=_arrays(record, rebuilt["features"]),
        training=others[0] if others else None,
        first_step=step,
    )


def _of_metric(record: VersionRecord, metrics: Mapping[str, float]) -> float | None:
    name = record.judgement.metric
    then, now = record.judgement.candidate_metrics.get(name), metrics.get(name)
    return None if then is None or now is None else _relative(abs(then - now), abs(then))


def _arrays(record: VersionRecord, result: StageResult) -> str:
    """The first encoded array with other bytes, as `numeric of 2026-03-20`; empty if all are equal."""
    now = {day.day: day.arrays for day in summaries.features(result).days}
    for day, arrays in sorted(record.arrays.items()):
        for name, sha256 in sorted(arrays.items()):
            found = now.get(day, {}).get(name)
            if found is None or found.sha256 != sha256:
                return f"{name} of {day}"
    fitted = result.outputs["fitted"].sha256
    return "" if record.fitted in {None, fitted} else "what was fitted on the training days"


def _file(store: Store, artifact: Artifact | None, folder: Path) -> Path | None:
    """A whole file, or None where it does not exist any more."""
    try:
        return None if artifact is None else fetch(store, artifact, folder)
    except CorruptArtifact:
        return None


def _of_weights(then: Path | None, now: Path | None) -> float | None:
    """The largest difference in a tensor, relative to its largest value."""
    if then is None or now is None:
        return None
    try:
        from safetensors.numpy import load_file
    except ModuleNotFoundError:
        return None
    ours, theirs = load_file(now), load_file(then)
    if {name: one.shape for name, one in ours.items()} != {name: one.shape for name, one in theirs.items()}:
        return None
    return max((_largest(ours[name], theirs[name]) for name in theirs), default=0.0)


def _of_scores(then: Path | None, now: Path | None) -> float | None:
    """The largest difference of the candidate's scores of a row, relative to the largest score."""
    if then is None or now is None:
        return None
    try:
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        return None
    ours, theirs = pq.read_table(now), pq.read_table(then)
    names = [name for name in theirs.column_names if name.startswith("candidate")]
    if ours.num_rows != theirs.num_rows or not set(names) <= {*ours.column_names}:
        return None
    return max((_largest(ours[name].to_numpy(), theirs[name].to_numpy()) for name in names), default=None)


def _first_step(then: Path | None, now: Path | None) -> int | None:
    """The first step whose loss or gradient has other bits; None if there is none, or no trace."""
    if then is None or now is None:
        return None
    try:
        import numpy as np
    except ModuleNotFoundError:
        return None
    ours, theirs = np.load(now, allow_pickle=False), np.load(then, allow_pickle=False)
    shared = min(len(ours), len(theirs))
    unlike = (ours[:shared] != theirs[:shared]) & ~np.isnan(theirs[:shared])  # NaN: the checkpoint of before had none
    steps = np.flatnonzero(unlike.any(axis=1))
    if len(steps):
        return int(steps[0]) + 1
    return shared + 1 if len(ours) != len(theirs) else None


def _largest(ours: Any, theirs: Any) -> float:
    import numpy as np

    if not theirs.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    return _relative(float(np.nanmax(apart)), float(np.nanmax(np.abs(theirs.astype(np.float64)))))


def _relative(apart: float, size: float) -> float:
    return apart / size if size else float(apart > 0)
