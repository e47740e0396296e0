"""validate: checks the data date, and excludes earlier days that break a rule."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import CorruptArtifact, DataRejected
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.summaries import Check, Validation
from ratchet.pages.words import count
from ratchet.runtime.context import Finished, StageContext
from ratchet.runtime.shares import finished_share
from ratchet.store.artifacts import fetch, read_json
from ratchet.store.publishing import read_manifest
from tasks.validate.data_date import check_data_date, check_earlier_days
from tasks.validate.days import WindowDays, window_days
from tasks.validate.drift import Reference, last_week
from tasks.validate.examples import Examples, example_rows
from tasks.validate.label_rate import immature
from tasks.validate.page import Findings, render
from tasks.validate.profile import Profile
from tasks.validate.rules import check_missing
from tasks.validate.suite_result import suite_result
from tasks.validate.sums import FirstDays
from tasks.validate.times import bounds
from tasks.validate.window import check_admitted, check_deliveries, check_excluded, check_refused


def run(ctx: StageContext) -> Finished:
    """Check the window. Raises DataRejected that names every failed check. Stores page and checks in both cases."""
    snapshot = summaries.snapshot(ctx.upstream("ingest"))
    with ctx.phase("profiles"):
        window = window_days(ctx, snapshot.days)
        if ctx.request.share:
            return finished_share(window.artifacts)
        today = window.profile(ctx.request.data_date)
        profiles = window.briefs
    bad = _bad_days(ctx, snapshot, profiles)
    good = {day: found for day, found in profiles.items() if day != ctx.request.data_date and day not in bad}
    with ctx.phase("sums"):
        reference, notes = _reference(ctx, window, good)
    with ctx.phase("checks"):
        checks, drifts = check_data_date(ctx, snapshot, today, reference)
        checks += notes + [check for failed in bad.values() for check in failed]
        checks += check_excluded(ctx.request.data_date, len(bad), len(profiles))
        checks += check_admitted(ctx.request.days, snapshot)
        kept_days = {day: found for day, found in profiles.items() if day not in bad}
        checks += check_deliveries(ctx.request.days, snapshot, kept_days, ctx.request.data_date, ctx.spec)
        checks += check_missing(kept_days, ctx.request.data_date, ctx.spec)
    validation = Validation(
        checks=tuple(checks),
        excluded=tuple(sorted(bad)),
        rows={day: found.rows for day, found in profiles.items()},
        labelled={day: found.labelled for day, found in profiles.items()},
        psi=drifts.psi,
        js=drifts.js,
        psi_last_week=drifts.psi_last_week,
        immature=tuple(day for day in profiles if immature(ctx.spec, ctx.request.data_date, day)),
    )
    with ctx.phase("page"):
        rows = _examples(ctx, snapshot, checks, reference.first)
        kept = _keep(ctx, Findings(validation, profiles, today, reference.profile, reference.name, rows))
    failed = [check for check in checks if not check.passed and check.severity == "error"]
    _log_warnings(ctx, validation, bad)
    if failed:
        raise _rejection(ctx, failed, len(checks), kept)
    summed = reference.summed
    artifact = ctx.transaction.add_bytes("reference", summed.model_dump_json(by_alias=True).encode(), rows=summed.rows)
    return Finished(
        # Without the checks: later stages depend on the good days, not on their distance from a limit.
        content=digest_of([[paths.day(day) for day in validation.excluded], artifact.sha256, *_immature(validation)]),
        summary=validation,
        metrics=_metrics(validation, today),
    )


def _immature(validation: Validation) -> list[list[str]]:
    """The days without all their labels, if there are any."""
    return [[paths.day(day) for day in validation.immature]] if validation.immature else []


def _bad_days(ctx: StageContext, snapshot: Snapshot, profiles: Mapping[date, Profile]) -> dict[date, list[Check]]:
    """The earlier days that break a rule or that their own run refused, each with its failed checks."""
    found = check_earlier_days(profiles, ctx.request.data_date, ctx.spec)
    for check in check_refused(ctx.request.days, snapshot):
        found[check.day].append(check)
    severity = "warning" if ctx.spec.validate_.bad_days == "exclude" else "error"
    return {
        day: [check.model_copy(update={"severity": severity}) for check in failed]
        for day, failed in found.items()
        if failed
    }


def _reference(ctx: StageContext, days: WindowDays, good: Mapping[date, Profile]) -> tuple[Reference, list[Check]]:
    """The reference of drift, and warnings about it. good: the window's other good days."""
    rule, champion, summed = ctx.spec.validate_.drift, ctx.request.champion, days.total(good)
    window = Reference(
        profile=summed.profile,
        name=f"the window's {count(len(good), 'other day')}",
        days=good,
        summed=summed.profile,
        week=days.total(last_week(good)).profile,
        first=summed.first,
        whole=days.profile,
    )
    if rule is not None and rule.against == "last_week":
        return replace(window, profile=window.week, name="the newest week of the window's other days"), []
    if rule is None or rule.against == "window" or champion is None or "validate" not in champion.manifests:
        return window, []
    name = f"the training data of {champion.model} version {champion.version}"
    try:
        result = read_manifest(ctx.store, champion.manifests["validate"]).result
        profile = read_json(ctx.store, result.outputs["reference"], Profile)
        return replace(window, profile=profile, name=name), []
    except (CorruptArtifact, KeyError) as error:
        warning = Check(
            day=ctx.request.data_date,
            rule="drift reference",
            passed=False,
            severity="warning",
            observed=f"{_damage(error)}; compared with {window.name}",
            allowed=name,
            key="validate.drift.against",
        )
        return window, [warning]


def _damage(error: CorruptArtifact | KeyError) -> str:
    return error.cause if isinstance(error, CorruptArtifact) else "no profile"


def _log_warnings(ctx: StageContext, validation: Validation, bad: Mapping[date, Sequence[Check]]) -> None:
    """Name every warning in the run's output, and every day that is excluded once."""
    for day in validation.excluded:
        ctx.log.event("excluded", f"{day} is excluded: {bad[day][0].line}", level="warning")
    for check in validation.checks:
        if not check.passed and check.severity == "warning" and check.day not in bad:
            ctx.log.event("check", check.line, level="warning")


def _examples(ctx: StageContext, snapshot: Snapshot, checks: Sequence[Check], seen: FirstDays) -> list[Examples]:
    """Rows of the data date that break a rule. The day's file is fetched only if a check failed."""
    failed = [check for check in checks if not check.passed and check.day == ctx.request.data_date]
    if not failed:
        return []
    part = next(part for part in snapshot.days if part.day == ctx.request.data_date)
    limits = bounds(ctx.spec, part.day, part.zones)
    return example_rows(fetch(ctx.store, part.file, ctx.disk), failed, ctx.spec, limits, seen)


def _keep(ctx: StageContext, findings: Findings) -> str:
    """Write page and checks as outputs, and with the run's records, where they stay if the stage fails.

    The checks also in great-expectations' form.
    """
    texts = {
        "page.html": ("validation.html", render(ctx.request, findings)),
        "checks.json": (paths.CHECKS, findings.validation.model_dump_json(by_alias=True, indent=1)),
        "great-expectations.json": (
            "great-expectations.json",
            json.dumps(suite_result(findings.validation, ctx.request), indent=1, ensure_ascii=False),
        ),
    }
    kept = []
    for output, (name, text) in texts.items():
        path = ctx.scratch / name
        path.write_text(text, encoding="utf-8")
        ctx.transaction.add(output, path)
        kept.append(ctx.keep(name, path))
    return kept[0]


def _rejection(ctx: StageContext, failed: Sequence[Check], count: int, page: str) -> DataRejected:
    lines = "\n".join(f"- {check.line}" for check in failed)
    return DataRejected(
        f"{ctx.request.data_date}: {len(failed)} of {count} checks failed\n{lines}",
        remedy=f"read {page} in the store; correct the data and run again, or change the rule in the pipeline file; "
        "if the rows are right, let them into later runs with `ratchet data accept`",
    )


def _metrics(validation: Validation, today: Profile) -> dict[str, float]:
    warned = sum(not check.passed for check in validation.checks)
    return {
        "rows": today.rows,
        "labelled": today.labelled,
        "checks": len(validation.checks),
        "warnings": warned,
        "days_excluded": len(validation.excluded),
        "psi_max": max(validation.psi.values(), default=0.0),
    }
