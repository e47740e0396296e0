"""Every day of the window as arrays and statistics, read from the store or encoded now."""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path

from pydantic import Field

from ratchet.contracts import bundle, data_versions, paths
from ratchet.contracts.columns import LISTS
from ratchet.contracts.document import Document
from ratchet.contracts.fingerprint import digest_of, flatten
from ratchet.contracts.made_columns import made_columns
from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.result import Artifact
from ratchet.contracts.snapshot import SnapshotDay
from ratchet.contracts.stored import take
from ratchet.contracts.summaries import Check, FeatureDay
from ratchet.contracts.widths import widths
from ratchet.model.derivation import FILE, Derive, load_derive
from ratchet.runtime.context import StageContext
from ratchet.runtime.days import DayParts, NewPart, refuse_too_large
from ratchet.store.artifacts import fetch
from ratchet.store.publishing import Transaction
from tasks.features.batches import ROWS
from tasks.features.day import EncodedDay, encode_day
from tasks.features.derived_rules import derived_rules
from tasks.features.statistics import Moments

CATEGORIES, QUANTILES, LABEL_SUMS = "categories", "quantiles", "label_sums"
"""The arrays for the vocabulary, for the edges of the bins of numbers, and for statistics; only the fit uses them."""
_READ = {
    "role",
    "type",
    "transform",
    "derived",
    "make",
    "dimension",
    "max_length",
    "keep",
    "weights",
    "share",
    "statistics",
}
"""The keys of a column that its arrays depend on."""
_BYTES_PER_VALUE = 48  # of a batch, for each thread: 20 were measured, and derive may copy all values
_BYTES_PER_ROW, _BYTES_OF_GROUP = 60, 70  # of a day of 10 million rows: 97 were measured, and 168 with groups
_BYTES_OF_SORT = 28  # of a row for each thread, which sorts a column of numbers
_NARROW = 64  # values in the lists of a row, from which on a row group has fewer rows


class KeptDay(Document):
    """The stored part of a day: its arrays, and the statistics for the fit."""

    day: FeatureDay
    numeric: tuple[Moments, ...] = Field(description="The moments of each numeric column.")
    label: Moments
    categories: Artifact = Field(description="The counts of ids, see statistics.count_ids.")
    quantiles: Artifact = Field(description="Where the numbers lie, see quantiles.summarise.")
    label_sums: Artifact | None = Field(None, description="Of categories, see category_statistics.label_sums.")
    checks: tuple[Check, ...] = Field((), description="The rules that derived columns break on this day.")

    @property
    def for_the_fit(self) -> dict[str, Artifact]:
        """The arrays that only the fit uses."""
        found = {CATEGORIES: self.categories, QUANTILES: self.quantiles}
        return found if self.label_sums is None else {**found, LABEL_SUMS: self.label_sums}


def encode_days(ctx: StageContext, wanted: Sequence[SnapshotDay]) -> list[KeptDay]:
    """Encode every day that is not stored; all days, oldest first. Raises DataRejected and ConfigurationError."""
    columns = ctx.spec.columns
    derived = {name: column.type for name, column in columns.items() if column.derived}
    derive = load_derive(ctx.folder, derived, made_columns(columns))
    parts = DayParts(
        ctx=ctx,
        name=paths.day_part("features"),
        verb="encoded",
        common=_parts(ctx),
        identity=partial(_identity, ctx.spec),
        make=partial(_make, ctx, derive),
        read=lambda found: take(KeptDay, found.result.summary),
    )
    return list(parts.build(wanted, memory=max((_memory(ctx, day) for day in wanted), default=0)).values())


def _memory(ctx: StageContext, day: SnapshotDay) -> int:
    """The bytes to encode a day. Row groups have fewer rows where rows are wide, and so have batches without groups."""
    rows, of_columns, threads = day.file.rows or 0, widths(ctx.spec.columns), _threads(ctx)
    of_rows = rows * (_BYTES_PER_ROW + (_BYTES_OF_GROUP if ctx.spec.group else 0) + _BYTES_OF_SORT * threads)
    several = sum(width for name, width in of_columns.items() if ctx.spec.columns[name].type in LISTS)
    at_once = ROWS if ctx.spec.group else ROWS * _NARROW // max(several, _NARROW)
    return of_rows + threads * min(rows, at_once) * sum(of_columns.values()) * _BYTES_PER_VALUE


def _identity(spec: PipelineSpec, day: SnapshotDay) -> dict[str, str]:
    """The parts of the fingerprint of one day.

    The last bits of the sums depend on its batches: of a large day, and of rows with lists, which have smaller ones.
    """
    several = any(column.type in LISTS for column in spec.columns.values())
    batches = {"rows.at_once": str(ROWS)} if several or (day.file.rows or 0) > ROWS else {}
    return {"input.rows": day.file.sha256, "day": paths.day(day.day), **batches}


def _parts(ctx: StageContext) -> dict[str, str]:
    """The parts of the fingerprint that all days share."""
    columns = {
        name: column.model_dump(mode="json", include=_READ, exclude_none=True)
        | ({"statistics": True} if column.statistics else {})  # a day has the same sums for each of them
        for name, column in ctx.spec.columns.items()
    }
    label = ctx.spec.columns[ctx.spec.label]
    user = bundle.python_files(ctx.folder) if (ctx.folder / FILE).is_file() else {}
    return {
        **flatten(columns, "config.columns"),
        **flatten(derived_rules(ctx.spec), "config.derived"),
        "config.columns": " ".join(columns),
        "config.columns.label.classes": str(len(label.allowed or ())),
        "config.train.objective": ctx.spec.train.objective,
        **{f"user.{name}": sha256 for name, sha256 in user.items()},
        "version.arrays": str(data_versions.ARRAYS),
    }


def _make(ctx: StageContext, derive: Derive, day: SnapshotDay, transaction: Transaction, scratch: Path) -> NewPart:
    refuse_too_large(ctx, day.day, day.file.rows or 0, _memory(ctx, day))
    (folder := scratch / "arrays").mkdir()
    path = fetch(ctx.store, day.file, scratch)
    encoded = encode_day(path, ctx.spec, derive, day=day.day, folder=folder, threads=_threads(ctx))
    arrays = {
        name: transaction.add(f"{name}.npy", folder / f"{name}.npy", rows=len(array))
        for name, array in encoded.arrays.items()
    }
    return NewPart(
        content=digest_of({name: array.sha256 for name, array in arrays.items()}),
        rows=encoded.rows,
        summary=_document(day.day, encoded, arrays),
    )


def _threads(ctx: StageContext) -> int:
    """The batches of a day that are encoded at once."""
    return max(1, int(ctx.spec.resources_of(ctx.request.stage).cpus))


def _document(day: date, encoded: EncodedDay, arrays: Mapping[str, Artifact]) -> KeptDay:
    return KeptDay(
        day=FeatureDay(
            day=day,
            rows=encoded.rows,
            unlabelled=encoded.unlabelled,
            arrays={name: array for name, array in arrays.items() if name not in {CATEGORIES, QUANTILES, LABEL_SUMS}},
        ),
        numeric=encoded.numeric,
        label=encoded.label,
        categories=arrays[CATEGORIES],
        quantiles=arrays[QUANTILES],
        label_sums=arrays.get(LABEL_SUMS),
        checks=encoded.checks,
    )
