"""The profile of every day of the window, read from the store or measured now."""

from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path

from ratchet.contracts import data_versions, paths
from ratchet.contracts.fingerprint import flatten
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.contracts.widths import widths
from ratchet.runtime.context import StageContext
from ratchet.runtime.days import DayParts, NewPart, refuse_too_large
from ratchet.store.artifacts import fetch, read_json
from ratchet.store.publishing import Transaction
from tasks.validate import measuring
from tasks.validate.profile import Profile
from tasks.validate.times import bounds

_PROFILE = "profile"
_BYTES_OF_TEXT, _BYTES_OF_NUMBER = 200, 110
"""Of a row while a column is measured: 185 were measured for texts that hardly repeat, and 107 for other columns."""


def profile_days(ctx: StageContext, days: Sequence[SnapshotDay]) -> dict[date, Profile]:
    """Measure every day that is not stored; the profiles of all days, oldest first."""
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
        read=lambda found: read_json(ctx.store, found.result.outputs[_PROFILE], Profile),
    )
    return parts.build(days, memory=max((_memory(ctx.spec, day) for day in days), default=0))


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
