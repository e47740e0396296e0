"""The held-out rows, raw as the snapshot has them: labelled ones only, the rows of a group next to each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ratchet.contracts.columns import Column
from ratchet.contracts.errors import DataRejected
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.snapshot import Snapshot
from ratchet.metrics.metrics import Rows
from ratchet.model.rows import read_rows
from ratchet.store.artifacts import fetch
from ratchet.store.base import Store


class DayPlaces(NamedTuple):
    """The held-out rows of a day, as their places in the day's file."""

    day: date
    places: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdout:
    """frame: raw rows as a served model gets them, without label and weight. rows: their labels, groups, weights.

    places: where these rows are in the files of their days, in the order of `frame`.
    """

    frame: pd.DataFrame
    rows: Rows
    days: tuple[date, ...]
    places: tuple[DayPlaces, ...] = ()

    @property
    def groups(self) -> int | None:
        """How many groups there are, if there are any."""
        return None if self.rows.offsets is None else len(self.rows.offsets) - 1

    def by_day(self) -> list[slice]:
        """The rows of each day: no group reaches over midnight."""
        ends = np.cumsum([len(places) for _, places in self.places]).tolist() or [len(self.frame)]
        return [slice(begin, end) for begin, end in pairwise([0, *ends])]


def read(store: Store, spec: PipelineSpec, snapshot: Snapshot, days: tuple[date, ...], scratch: Path) -> Holdout:
    """The labelled rows of some days, oldest day first, sorted by group within a day, else in the snapshot's order.

    Raises DataRejected where no row has a label.
    """
    wanted = set(days)
    files = {day.day: day.file for day in sorted(snapshot.days, key=lambda day: day.day) if day.day in wanted}
    by_day = {day: frame for day, file in files.items() if len(frame := _day(fetch(store, file, scratch), spec))}
    if not by_day:
        named = ", ".join(map(str, days)) or "no day"
        raise DataRejected(
            f"columns.{spec.label}: no held-out row ({named}) has a label",
            remedy="see that labels have arrived for the data date, or raise evaluate.holdout_days",
        )
    frames = list(by_day.values())
    offsets = _offsets([frame[spec.group] for frame in frames]) if spec.group else None
    frame = pd.concat(frames, ignore_index=True)
    label = frame[spec.label].to_numpy(np.float64)
    weights = spec.with_role("weight")
    weight = frame[weights[0]].to_numpy(np.float64) if weights else None
    cluster = pd.factorize(frame[spec.evaluate.cluster])[0] if spec.evaluate.cluster else None
    rows = Rows(label=label, offsets=offsets, weight=weight, cluster=cluster)
    places = tuple(DayPlaces(day, frame.index.to_numpy(np.int64)) for day, frame in by_day.items())
    return Holdout(frame=frame.drop(columns=[spec.label, *weights]), rows=rows, days=days, places=places)


def read_again(held: Holdout, files: Sequence[Path], columns: Mapping[str, Column]) -> pd.DataFrame:
    """The same rows with other columns. files: of the days of `held.places`, row for row those of the snapshot."""
    pairs = zip(files, held.places, strict=True)
    return pd.concat([read_rows(file, columns).iloc[places] for file, (_, places) in pairs], ignore_index=True)


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
