"""The held-out rows, raw as the snapshot has them: labelled ones only, the rows of a group next to each other."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts.errors import DataRejected
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.summaries import Snapshot
from ratchet.metrics.metrics import Rows
from ratchet.model.rows import read_rows
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdout:
    """frame: raw rows as a served model gets them, without label and weight. rows: their labels, groups, weights."""

    frame: pd.DataFrame
    rows: Rows
    days: tuple[date, ...]

    @property
    def groups(self) -> int | None:
        """How many groups there are, if there are any."""
        return None if self.rows.offsets is None else len(self.rows.offsets) - 1


def read(store: Store, spec: PipelineSpec, snapshot: Snapshot, days: tuple[date, ...], scratch: Path) -> Holdout:
    """The labelled rows of some days, oldest day first, sorted by group within a day, else in the snapshot's order.

    Raises DataRejected where no row has a label.
    """
    wanted = set(days)
    files = [day.file for day in sorted(snapshot.days, key=lambda day: day.day) if day.day in wanted]
    frames = [frame for file in files if len(frame := _day(fetch(store, file, scratch), spec))]
    if not frames:
        named = ", ".join(map(str, days)) or "no day"
        raise DataRejected(
            f"columns.{spec.label}: no held-out row ({named}) has a label",
            remedy="see that labels have arrived for the data date, or raise evaluate.holdout_days",
        )
    offsets = _offsets([frame[spec.group] for frame in frames]) if spec.group else None
    frame = pd.concat(frames, ignore_index=True)
    label = frame[spec.label].to_numpy(np.float64)
    weights = spec.with_role("weight")
    weight = frame[weights[0]].to_numpy(np.float64) if weights else None
    cluster = pd.factorize(frame[spec.evaluate.cluster])[0] if spec.evaluate.cluster else None
    rows = Rows(label=label, offsets=offsets, weight=weight, cluster=cluster)
    return Holdout(frame=frame.drop(columns=[spec.label, *weights]), rows=rows, days=days)


def _day(path: Path, spec: PipelineSpec) -> pd.DataFrame:
    frame = read_rows(path, spec.columns)
    frame = frame[frame[spec.label].notna()]
    return frame.sort_values(spec.group, kind="stable") if spec.group else frame


def _offsets(groups: list[pd.Series]) -> NDArray[np.int64]:
    """Where groups begin, and the end. None reaches over midnight; a row without a group is one of its own."""
    starts, rows = [], 0
    for values in groups:
        codes = pd.factorize(values)[0]
        starts.append(np.flatnonzero((np.diff(codes, prepend=-2) != 0) | (codes < 0)) + rows)
        rows += len(codes)
    return np.concatenate([*starts, [rows]]).astype(np.int64)
