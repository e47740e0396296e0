"""The profile of every day of the window, read from the store or measured now; briefs and sums of days by blocks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property, partial
from pathlib import Path

from ratchet.contracts import data_versions, paths
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import digest_of, flatten
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.result import Artifact
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.contracts.stored import read_stored
from ratchet.contracts.widths import widths
from ratchet.runtime.blocks import SUMS, Blocks
from ratchet.runtime.context import StageContext
from ratchet.runtime.days import DayParts, NewPart, refuse_too_large
from ratchet.store.artifacts import fetch, read_json
from ratchet.store.publishing import Transaction, discard_damaged
from tasks.validate import measuring
from tasks.validate.profile import Profile
from tasks.validate.slice_volume import sliced_columns
from tasks.validate.sums import Sums, add, of_day
from tasks.validate.times import bounds

_PROFILE = "profile"
_BYTES_OF_TEXT, _BYTES_OF_NUMBER = 200, 110
"""Of a row while a column is measured: 185 were measured for texts that hardly repeat, and 107 for other columns."""


@dataclass(frozen=True, kw_only=True)
class WindowDays:
    """The days of a window. A profile is read when it is asked for; one that is damaged is measured again."""

    ctx: StageContext
    parts: DayParts[SnapshotDay, Artifact]
    rows: Mapping[date, SnapshotDay]
    artifacts: dict[date, Artifact]
    _read: dict[date, Profile] = field(default_factory=dict)

    def profile(self, day: date) -> Profile:
        """The profile of a day."""
        if day not in self._read:
            self._read[day] = self._profile(day)
        return self._read[day]

    def _profile(self, day: date) -> Profile:
        artifact = self.artifacts[day]
        try:
            return read_json(self.ctx.store, artifact, Profile)
        except CorruptArtifact as error:
            self.ctx.log.event("damaged", f"{error.cause}; the stage measures the day again", level="warning")
            discard_damaged(self.ctx.store, paths.published_prefix(artifact.key))
            alone = replace(self.parts, indexed=False)
            again = alone.build([self.rows[day]], memory=_memory(self.ctx.spec, self.rows[day]))[day]
            if again.sha256 != artifact.sha256:  # sums are found by the bytes of before
                raise CorruptArtifact(
                    f"{day}: measured again, its profile has other bytes than {error.cause}",
                    remedy="run again: then every sum is that of the new profile",
                ) from error
            self.artifacts[day] = again
            return read_json(self.ctx.store, again, Profile)

    @cached_property
    def briefs(self) -> dict[date, Profile]:
        """Of every day, oldest first; of the data date, the newest one, the profile."""
        today = self.ctx.request.data_date
        found: dict[date, Profile] = {}
        for part in self._over(day for day in self.artifacts if day != today):
            found.update(part.briefs)
        return {**found, today: self.profile(today)}

    def total(self, days: Iterable[date]) -> Sums:
        """The sum of some days."""
        return add(self._over(days))

    def _over(self, days: Iterable[date]) -> list[Sums]:
        return self._blocks.over({day: self.artifacts[day].sha256 for day in days})

    @cached_property
    def _blocks(self) -> Blocks[Sums]:
        whole = {self.ctx.spec.label, *sliced_columns(self.ctx.spec)}
        return Blocks(
            store=self.ctx.store,
            pipeline=self.ctx.spec.name,
            kind=SUMS,
            version=digest_of([data_versions.SUMS, sorted(whole)]),
            leaf=lambda day: of_day(day, self.profile(day), whole),
            merge=add,
            write=lambda found: found.model_dump_json(exclude_defaults=True).encode(),
            read=lambda data: read_stored(Sums, data, where="the sum of days"),
            may_write=self.ctx.refuse_later_removal,
            on_damaged=self.ctx.say_damaged_sum,
            parts=self.ctx.request.parts,
        )


def window_days(ctx: StageContext, days: Sequence[SnapshotDay]) -> WindowDays:
    """Measure every day that is not stored."""
    parts = DayParts(
        ctx=ctx,
        name=paths.day_part("validate"),
        verb="profiled",
        common={
            **flatten(measuring.parts(ctx.spec), "config.columns"),
            **measuring.other_parts(ctx.spec),
            "version.profile": str(data_versions.PROFILE),
        },
        identity=partial(_identity, ctx.spec),
        make=partial(_measure, ctx),
        read=lambda found: found.result.outputs[_PROFILE],
    )
    artifacts = parts.build(days, memory=max((_memory(ctx.spec, day) for day in days), default=0))
    return WindowDays(ctx=ctx, parts=parts, rows={day.day: day for day in days}, artifacts=artifacts)


def _memory(spec: PipelineSpec, day: SnapshotDay) -> int:
    """The bytes for the largest column of a day."""
    of_type = {
        name: _BYTES_OF_TEXT if "string" in column.type else _BYTES_OF_NUMBER for name, column in spec.columns.items()
    }
    return (day.file.rows or 0) * max(width * of_type[name] for name, width in widths(spec.columns).items())


def _identity(spec: PipelineSpec, day: SnapshotDay) -> dict[str, str]:
    """The rows of the day, and when it begins and ends for its time column."""
    limits = bounds(spec, day.day, day.zones)
    return {
        "input.file": day.file.sha256,
        **{f"day.{name}": f"{first} to {end}" for name, (first, end) in limits.items()},
    }


def _measure(ctx: StageContext, day: SnapshotDay, transaction: Transaction, scratch: Path) -> NewPart:
    refuse_too_large(ctx, day.day, day.file.rows or 0, _memory(ctx.spec, day))
    limits = bounds(ctx.spec, day.day, day.zones)
    measured = measuring.measure(fetch(ctx.store, day.file, scratch), ctx.spec, limits)
    artifact = transaction.add_bytes(_PROFILE, measured.model_dump_json(by_alias=True).encode(), rows=measured.rows)
    return NewPart(content=artifact.sha256, rows=measured.rows)
