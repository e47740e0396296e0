"""features: encodes every day of the window once, and fits statistics on the training days."""

from collections.abc import Sequence

import numpy as np

from ratchet.contracts import paths, summaries
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.summaries import FeatureSet
from ratchet.model.fitted_state import FittedState
from ratchet.runtime.context import Finished, StageContext
from ratchet.store.artifacts import fetch
from tasks.features.day import categorical, numeric
from tasks.features.days import CATEGORIES, KeptDay, encode_days
from tasks.features.refusals import refuse_unlearnable
from tasks.features.split import split
from tasks.features.statistics import merge, vocabulary


def run(ctx: StageContext) -> Finished:
    """Encode the new days, and fit. Raises DataRejected and ConfigurationError."""
    spec = ctx.spec
    snapshot = summaries.snapshot(ctx.upstream("ingest"))
    excluded = set(summaries.validation(ctx.upstream("validate")).excluded)
    wanted = [day for day in snapshot.days if day.day not in excluded]
    with ctx.phase("days"):
        days = encode_days(ctx, wanted)
    for day in days:
        for name, array in {**day.day.arrays, CATEGORIES: day.categories}.items():
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


def _fit(ctx: StageContext, days: Sequence[KeptDay]) -> FittedState:
    columns = [merge(column) for column in zip(*(day.numeric for day in days), strict=True)]
    counts = [np.load(fetch(ctx.store, day.categories, ctx.disk), mmap_mode="r") for day in days]
    label = merge(day.label for day in days)
    refuse_unlearnable(ctx.spec, [day.day.day for day in days], label=label, numeric=columns, counts=counts)
    return FittedState(
        mean=np.array([column.mean for column in columns]),
        std=np.array([column.std for column in columns]),
        vocabulary=tuple(
            vocabulary(counts, column, ctx.spec.train.model.min_count) for column in range(len(categorical(ctx.spec)))
        ),
        label_mean=label.mean,
        label_std=label.std,
    )
