"""What is fitted on many days, read by blocks of days: see ratchet.runtime.blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratchet.contracts import data_versions
from ratchet.contracts.result import Artifact
from ratchet.model.arrays import read_array
from ratchet.model.hashing import Ids
from ratchet.runtime.blocks import FITTED, Blocks
from ratchet.runtime.context import StageContext
from tasks.features.days import KeptDay
from tasks.features.quantiles import Summary, add_summaries
from tasks.features.statistics import add_counts


@dataclass(frozen=True, slots=True, eq=False)
class DaySums:
    """Of some days: see statistics.count_ids and quantiles.summarise."""

    counts: Ids
    quantiles: Summary


class WindowSums:
    """The sums of a window's days."""

    def __init__(self, ctx: StageContext, days: Sequence[KeptDay]) -> None:
        self._ctx, self._days = ctx, {day.day.day: day for day in days}
        self._blocks = Blocks(
            store=ctx.store,
            pipeline=ctx.spec.name,
            kind=FITTED,
            version=str(data_versions.FITTED),
            leaf=self._of_day,
            merge=_add,
            write=_as_bytes,
            read=_as_sums,
            may_write=ctx.refuse_later_removal,
            on_damaged=ctx.say_damaged_sum,
            parts=ctx.request.parts,
        )

    def over(self, days: Sequence[date]) -> list[DaySums]:
        """The sums of the blocks of some days."""
        return self._blocks.over({day: self._identity(self._days[day]) for day in days})

    def _identity(self, day: KeptDay) -> str:
        return f"{day.categories.sha256} {day.quantiles.sha256}"

    def _of_day(self, day: date) -> DaySums:
        kept = self._days[day]
        return DaySums(self._array(kept.categories), self._array(kept.quantiles))

    def _array(self, artifact: Artifact) -> NDArray[Any]:
        return read_array(self._ctx.store, artifact, self._ctx.disk, mapped=True)


def _add(parts: Sequence[DaySums]) -> DaySums:
    return DaySums(add_counts([part.counts for part in parts]), add_summaries([part.quantiles for part in parts]))


def _as_bytes(found: DaySums) -> bytes:
    buffer = BytesIO()
    np.save(buffer, found.counts)
    np.save(buffer, found.quantiles)
    return buffer.getvalue()


def _as_sums(data: bytes) -> DaySums:
    buffer = BytesIO(data)
    counts: Ids = np.load(buffer, allow_pickle=False)
    return DaySums(counts, np.load(buffer, allow_pickle=False))
