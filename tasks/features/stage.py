"""features: every day of the window as arrays, made once, and what is fitted on the training days."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from ratchet.contracts import bundle, paths, summaries
from ratchet.contracts.document import Document
from ratchet.contracts.errors import CorruptArtifact
from ratchet.contracts.fingerprint import digest_of, fingerprint, flatten
from ratchet.contracts.result import Artifact
from ratchet.contracts.summaries import FeatureDay, FeatureSet, SnapshotDay
from ratchet.model.derivation import FILE, Derive, load_derive
from ratchet.model.fitted import Fitted
from ratchet.runtime.code import code_parts
from ratchet.runtime.context import Finished, StageContext
from ratchet.store.artifacts import fetch
from ratchet.store.publishing import Transaction, discard_damaged, published
from tasks.features.day import EncodedDay, categorical, encode_day, numeric
from tasks.features.split import split
from tasks.features.statistics import Moments, merged, vocabulary

_PART = paths.day_part("features")
_BYTES_PER_VALUE = 48  # of one value while its day is encoded: 20 were measured, and derive may copy all of them
_CATEGORIES = "categories"


class _Day(Document):
    """What is kept of a day: its arrays, and what the fit needs to know."""

    day: FeatureDay
    numeric: tuple[Moments, ...]
    label: Moments
    categories: Artifact


def run(ctx: StageContext) -> Finished:
    """Encode the days that are new, and fit. Raises DataRejected and ConfigurationError."""
    spec = ctx.spec
    snapshot = summaries.snapshot(ctx.upstream("ingest"))
    excluded = set(summaries.validation(ctx.upstream("validate")).excluded)
    wanted = [day for day in snapshot.days if day.day not in excluded]
    with ctx.phase("days"):
        days = _days(ctx, wanted)
    for day in days:
        for name, array in {**day.day.arrays, _CATEGORIES: day.categories}.items():
            ctx.transaction.refer(f"{paths.day(day.day.day)}-{name}.npy", array)
    unlabelled = sum(day.day.unlabelled for day in days)
    if unlabelled:
        ctx.log.event("unlabelled", f"{unlabelled:,} rows without a label were dropped", rows=unlabelled)
    days = [day for day in days if day.day.rows]
    parts = split(spec, ctx.request.data_date, [day.day.day for day in days])
    with ctx.phase("fit"):
        fitted = _fit(ctx, [day for day in days if day.day.day in parts.train])
        artifact = ctx.transaction.add_bytes("fitted", fitted.to_bytes())
    features = FeatureSet(
        numeric=numeric(spec),
        categorical=tuple(categorical(spec)),
        days=tuple(day.day for day in days),
        split=parts,
    )
    return Finished(
        content=digest_of(
            {
                "columns": [features.numeric, features.categorical],
                "days": [
                    [paths.day(day.day), {name: array.sha256 for name, array in day.arrays.items()}]
                    for day in features.days
                ],
                "split": parts.model_dump(mode="json"),
                "fitted": artifact.sha256,
            }
        ),
        summary=features,
        metrics={
            "rows": sum(day.rows for day in features.days),
            "rows_train": sum(day.rows for day in features.of(parts.train)),
            "rows_unlabelled": unlabelled,
            "days": len(days),
            "categories": sum(map(len, fitted.vocabulary)),
        },
    )


def _fit(ctx: StageContext, days: Sequence[_Day]) -> Fitted:
    columns = [merged(column) for column in zip(*(day.numeric for day in days), strict=True)]
    counts = [np.load(fetch(ctx.store, day.categories, ctx.disk), mmap_mode="r") for day in days]
    label = merged(day.label for day in days)
    return Fitted(
        mean=np.array([column.mean for column in columns]),
        std=np.array([column.std for column in columns]),
        vocabulary=tuple(
            vocabulary(counts, column, ctx.spec.train.model.min_count) for column in range(len(categorical(ctx.spec)))
        ),
        label_mean=label.mean,
        label_std=label.std,
    )


def _days(ctx: StageContext, wanted: Sequence[SnapshotDay]) -> list[_Day]:
    """Every day, from the cache or made now, oldest first; as many at once as processors and memory allow."""
    spec = ctx.spec
    derive = load_derive(ctx.folder, {name: column.type for name, column in spec.columns.items() if column.derived})
    common = _parts(ctx)
    # Of a night's cached days sizes are looked at alone. Bytes are, once this result was found to be damaged.
    quick = not any(ctx.store.list(f"{ctx.request.prefix}/damaged"))
    largest = max((day.file.rows or 0 for day in wanted), default=0) * len(spec.columns) * _BYTES_PER_VALUE
    resources = spec.resources["features"]
    workers = max(1, min(int(resources.cpus), int(resources.memory / 2 / max(largest, 1))))
    found: dict[date, _Day] = {}
    pool = ThreadPoolExecutor(workers)
    try:
        futures = [pool.submit(_day, ctx, derive, day, common, quick=quick) for day in wanted]
        for done, future in enumerate(as_completed(futures), start=1):
            day, reused = future.result()
            found[day.day.day] = day
            verb = "reused" if reused else f"encoded {day.day.rows} rows of"
            ctx.log.progress(f"{verb} {day.day.day}", done=done, total=len(wanted))
    finally:
        pool.shutdown(cancel_futures=True)
    return [found[day] for day in sorted(found)]


def _parts(ctx: StageContext) -> dict[str, str]:
    """What every day's arrays depend on, besides its rows."""
    columns = {
        name: column.model_dump(mode="json", include={"role", "type", "transform", "derived"})
        for name, column in ctx.spec.columns.items()
    }
    label = ctx.spec.columns[ctx.spec.label]
    user = bundle.python_files(ctx.folder) if (ctx.folder / FILE).is_file() else {}
    return {
        **code_parts("tasks.features.day"),
        **flatten(columns, "config.columns"),
        "config.columns": " ".join(columns),
        "config.columns.label.classes": str(len(label.allowed or ())),
        "config.train.objective": ctx.spec.train.objective,
        **{f"user.{name}": sha256 for name, sha256 in user.items()},
        "library.numpy": np.__version__,
        "library.pandas": pd.__version__,
        **{name: value for name, value in ctx.request.parts.items() if name == "rebuild"},
    }


def _day(
    ctx: StageContext, derive: Derive, day: SnapshotDay, common: Mapping[str, str], *, quick: bool
) -> tuple[_Day, bool]:
    """A day's arrays in the store, and whether they stood there before."""
    parts = {**common, "input.rows": day.file.sha256, "day": paths.day(day.day)}
    prefix = paths.published(ctx.spec.name, _PART, fingerprint(parts))
    standing = _standing(ctx, prefix, quick=quick)
    if standing is not None:
        return standing, True
    source = fetch(ctx.store, day.file, ctx.disk)
    encoded = encode_day(source, ctx.spec, derive, where=f"{day.day}")
    transaction = Transaction(ctx.store, prefix, ctx.request.attempt)
    arrays = {
        name: _add(transaction, ctx.disk / f"{day.day}-{name}.npy", name, array)
        for name, array in encoded.arrays.items()
    }
    made = _document(day.day, encoded, arrays)
    transaction.commit(
        stage=_PART,
        fingerprint=fingerprint(parts),
        parts=parts,
        content=digest_of({name: array.sha256 for name, array in arrays.items()}),
        summary=made,
    )
    again = _standing(ctx, prefix, quick=True)  # ours, or the same of an attempt that was quicker
    if again is None:
        raise CorruptArtifact(f"{ctx.store.uri}/{prefix}: what was just published is damaged", remedy="run again")
    return again, False


def _add(transaction: Transaction, path: Path, name: str, array: np.ndarray) -> Artifact:
    np.save(path, np.ascontiguousarray(array), allow_pickle=False)
    try:
        return transaction.add(f"{name}.npy", path, rows=len(array))
    finally:
        path.unlink()


def _document(day: date, encoded: EncodedDay, arrays: Mapping[str, Artifact]) -> _Day:
    return _Day(
        day=FeatureDay(
            day=day,
            rows=encoded.rows,
            unlabelled=encoded.unlabelled,
            arrays={name: array for name, array in arrays.items() if name != _CATEGORIES},
        ),
        numeric=encoded.numeric,
        label=encoded.label,
        categories=arrays[_CATEGORIES],
    )


def _standing(ctx: StageContext, prefix: str, *, quick: bool) -> _Day | None:
    """What was published for a day. What is damaged is moved aside and made anew; readers check every digest."""
    if discard_damaged(ctx.store, prefix, quick=quick):
        ctx.log.event("damaged", f"{prefix} was damaged, and is made anew", level="warning")
        return None
    try:
        found = published(ctx.store, prefix)
    except CorruptArtifact:
        return None
    return None if found is None else _Day.model_validate(found.result.summary)
