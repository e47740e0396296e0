"""features: encodes every day of the window once, and fits statistics on the days of a training and of its refit."""

from collections.abc import Sequence
from datetime import date

from ratchet.contracts import paths, summaries
from ratchet.contracts.category_statistics import FEWEST_DAYS
from ratchet.contracts.errors import DataRejected
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.summaries import Check, FeatureSet, Validation
from ratchet.model.arrays import read_array
from ratchet.model.fitted_state import FittedState
from ratchet.pages.words import count
from ratchet.runtime.context import Finished, StageContext
from ratchet.runtime.shares import finished_share
from tasks.features.category_statistics import Source
from tasks.features.day import categorical, numeric, reads, statistical
from tasks.features.days import KeptDay, encode_days
from tasks.features.fitting import fit
from tasks.features.refusals import refuse_unlearnable
from tasks.features.split import refit_days, split
from tasks.features.statistics import Moments, merge
from tasks.features.sums import WindowSums

_MOST_EXCLUDED = 0.5


def run(ctx: StageContext) -> Finished:
    """Encode the new days, check derived columns, and fit. Raises DataRejected and ConfigurationError."""
    spec = ctx.spec
    snapshot = summaries.snapshot(ctx.upstream("ingest"))
    validation = summaries.validation(ctx.upstream("validate"))
    excluded = {*validation.excluded, *validation.immature}
    wanted = [day for day in snapshot.days if day.day not in excluded]
    with ctx.phase("days"):
        days = encode_days(ctx, wanted)
    if ctx.request.share:
        return finished_share(days)
    for day in days:
        for name, array in {**day.day.arrays, **day.for_the_fit}.items():
            ctx.transaction.refer(f"{paths.day(day.day.day)}-{name}.npy", array)
    unlabelled = sum(day.day.unlabelled for day in days)
    if unlabelled:
        ctx.log.event("unlabelled", f"{unlabelled:,} rows without a label were dropped", rows=unlabelled)
    checks = tuple(check for day in days for check in day.checks)
    refused = _judge(ctx, days, checks)
    _name_unlabelled(ctx, days)
    days = [day for day in days if day.day.rows and day.day.day not in refused]
    parts = split(spec, ctx.request.data_date, [day.day.day for day in days])
    with ctx.phase("fit"):
        fitted = _fit(ctx, [day for day in days if day.day.day in {*parts.train, *parts.valid}], parts.train)
        artifact = ctx.transaction.add_bytes("fitted", fitted.to_bytes())
        again = refit_days(spec, ctx.request.data_date, parts) if spec.train.refit else ()
        if again:
            refitted = _fit(ctx, [day for day in days if day.day.day in again], again)
            ctx.transaction.add_bytes("refitted", refitted.to_bytes())
    features = FeatureSet(
        numeric=numeric(spec),
        categorical=tuple(categorical(spec)),
        days=tuple(day.day for day in days),
        split=parts,
        checks=checks,
        excluded=refused,
        refit=again,
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


def _judge(ctx: StageContext, days: Sequence[KeptDay], checks: Sequence[Check]) -> tuple[date, ...]:
    """The earlier days on which a derived column breaks a rule. Names every failed check.

    Raises DataRejected if the data date is such a day, if more than half of the days are, or if bad_days is fail.
    """
    failed = [check for check in checks if check.severity == "error"]
    bad = tuple(sorted({check.day for check in failed}))
    stops = ctx.request.data_date in bad or len(bad) > _MOST_EXCLUDED * len(days)
    if bad and (stops or ctx.spec.validate_.bad_days == "fail"):
        found = Validation(checks=tuple(checks), rows={day.day.day: day.day.rows for day in days}, labelled={})
        path = ctx.scratch / paths.CHECKS
        path.write_text(found.model_dump_json(by_alias=True, indent=1), encoding="utf-8")
        kept = ctx.keep(path.name, path)
        lines = "\n".join(f"- {check.line}" for check in failed)
        raise DataRejected(
            f"{ctx.request.data_date}: derived columns break rules on {count(len(bad), 'day')}\n{lines}",
            remedy=f"correct derive in features.py or the data, or change the rule; every check is in {kept}",
        )
    for check in checks:
        excluded = f"{check.day} is excluded: " if check.day in bad else ""
        ctx.log.event("check", f"{excluded}{check.line}", level="warning")
    return bad


def _name_unlabelled(ctx: StageContext, days: Sequence[KeptDay]) -> None:
    """Name the days that drop out because no row of them has a label."""
    for day in days:
        if not day.day.rows:
            ctx.log.event("unlabelled_day", f"{day.day.day} is left out: none of its rows has a label", level="warning")


def _fit(ctx: StageContext, days: Sequence[KeptDay], learnt: Sequence[date]) -> FittedState:
    """Fit on some days. learnt: those of them whose rows are trained on from the start."""
    numbers = [merge(column) for column in zip(*(day.numeric for day in days), strict=True)]
    sums = WindowSums(ctx, days)
    first = [place for place, day in enumerate(days) if day.day.day in learnt]
    of_learnt = sums.over([days[place].day.day for place in first])
    found = [*of_learnt, *sums.over([day.day.day for day in days if day.day.day not in learnt])]
    label = merge(days[place].label for place in first)
    refuse_unlearnable(
        ctx.spec,
        learnt,
        label=label,
        numeric=[merge(column) for column in zip(*(days[place].numeric for place in first), strict=True)],
        counts=[one.counts for one in of_learnt],
    )
    return fit(
        numbers,
        [one.counts for one in found],
        [one.quantiles for one in found],
        merge(day.label for day in days),
        columns=reads(ctx.spec),
        min_count=ctx.spec.train.model.min_count,
        statistics=_statistics(ctx, days, learnt, label),
    )


def _statistics(ctx: StageContext, days: Sequence[KeptDay], learnt: Sequence[date], label: Moments) -> Source | None:
    """What statistics of categories are made of, if the pipeline declares any. label: of the days in `learnt`."""
    wanted = statistical(ctx.spec)
    if not wanted:
        return None
    if len(learnt) < FEWEST_DAYS:
        raise DataRejected(
            f"statistics of categories need {FEWEST_DAYS} training days, and there is {len(learnt)}",
            remedy="deliver more days, check the days that validate excluded, or raise source.window_days",
        )
    counts = [read_array(ctx.store, day.categories, ctx.disk, mapped=True) for day in days]
    sums = [read_array(ctx.store, day.label_sums, ctx.disk, mapped=True) for day in days if day.label_sums]
    return Source(
        wanted=wanted, days=[day.day.day for day in days], counts=counts, sums=sums, learnt=learnt, label=label
    )
