"""validate: checks the data date, and excludes earlier days that break a rule."""

from collections.abc import Mapping, Sequence
from datetime import date

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import CorruptArtifact, DataRejected
from ratchet.contracts.fingerprint import digest_of
from ratchet.contracts.summaries import Check, Snapshot, Validation
from ratchet.runtime.context import Finished, StageContext
from ratchet.store.artifacts import fetch, read_json
from ratchet.store.publishing import read_manifest
from tasks.validate.days import profile_days
from tasks.validate.drift import check_drift
from tasks.validate.expectations import check_expectations
from tasks.validate.page import Findings, render
from tasks.validate.profile import Profile, total
from tasks.validate.rules import check_columns
from tasks.validate.volume import check_volume
from tasks.validate.window import check_copy, check_excluded


def run(ctx: StageContext) -> Finished:
    """Check the window. Raises DataRejected that names every failed check. Stores the result page in both cases."""
    snapshot = summaries.snapshot(ctx.upstream("ingest"))
    today = ctx.request.data_date
    with ctx.phase("profiles"):
        profiles = profile_days(ctx, snapshot.days)
    before = {day: found for day, found in profiles.items() if day != today}
    broken = {
        day: failed
        for day, found in before.items()
        if (failed := [check for check in check_columns(day, found, ctx.spec, is_data_date=False) if not check.passed])
    }
    good = {day: found for day, found in before.items() if day not in broken}
    summed = total(good.values())
    reference, name, notes = _reference(ctx, summed, len(good))
    with ctx.phase("checks"):
        checks, psi = _check_data_date(ctx, snapshot, profiles[today], good, (reference, name))
    severity = "warning" if ctx.spec.validate_.bad_days == "exclude" else "error"
    earlier = [check.model_copy(update={"severity": severity}) for failed in broken.values() for check in failed]
    checks += notes + earlier + check_excluded(today, len(broken), len(before) + 1)
    validation = Validation(
        checks=tuple(checks),
        excluded=tuple(sorted(broken)),
        rows={day: found.rows for day, found in profiles.items()},
        labelled={day: found.labelled for day, found in profiles.items()},
        psi=psi,
    )
    with ctx.phase("page"):
        kept = _keep_page(ctx, Findings(validation, profiles[today], reference, name))
    failed = [check for check in checks if not check.passed and check.severity == "error"]
    if failed:
        raise _rejection(ctx, failed, len(checks), kept)
    for day in validation.excluded:
        ctx.log.event("excluded", f"{day} is excluded: {_line(broken[day][0])}", level="warning")
    artifact = ctx.transaction.add_bytes("reference", summed.model_dump_json(by_alias=True).encode(), rows=summed.rows)
    return Finished(
        # Without the checks: later stages depend on the good days, not on their distance from a limit.
        content=digest_of([[paths.day(day) for day in validation.excluded], artifact.sha256]),
        summary=validation,
        metrics=_metrics(validation, profiles[today]),
    )


def _check_data_date(
    ctx: StageContext,
    snapshot: Snapshot,
    today: Profile,
    good: Mapping[date, Profile],
    reference: tuple[Profile, str],
) -> tuple[list[Check], dict[str, float]]:
    """Run every check of the data date. Returns the checks, and the drift of its features."""
    day, rules = ctx.request.data_date, ctx.spec.validate_
    checks = [check_copy(snapshot, day), *check_columns(day, today, ctx.spec, is_data_date=True)]
    psi: dict[str, float] = {}
    if rules.volume:
        checks += check_volume(day, today, good, rules.volume, ctx.spec.label)
    if rules.drift:
        drifted, psi = check_drift(day, today, reference[0], rules.drift, ctx.spec, reference[1])
        checks += drifted
    if rules.expectations:
        file = next(part.file for part in snapshot.days if part.day == day)
        with ctx.phase("expectations"):
            checks += check_expectations(day, fetch(ctx.store, file, ctx.disk), rules.expectations)
    return checks, psi


def _reference(ctx: StageContext, summed: Profile, days: int) -> tuple[Profile, str, list[Check]]:
    """The reference of drift, its name, and warnings about it. summed: the profile of the window's other days."""
    rule, champion = ctx.spec.validate_.drift, ctx.request.champion
    window = f"the window's {days} other days"
    if rule is None or rule.against == "window" or champion is None or "validate" not in champion.manifests:
        return summed, window, []
    name = f"the training data of {champion.model} version {champion.version}"
    try:
        result = read_manifest(ctx.store, champion.manifests["validate"]).result
        return read_json(ctx.store, result.outputs["reference"], Profile), name, []
    except (CorruptArtifact, KeyError) as error:
        warning = Check(
            day=ctx.request.data_date,
            rule="drift reference",
            passed=False,
            severity="warning",
            observed=f"{error.cause if isinstance(error, CorruptArtifact) else 'no profile'}; compared with {window}",
            allowed=name,
            key="validate.drift.against",
        )
        return summed, window, [warning]


def _keep_page(ctx: StageContext, findings: Findings) -> str:
    """Write the result page as an output, and with the run's records, where it stays if the stage fails."""
    path = ctx.scratch / "validation.html"
    path.write_text(render(ctx.request, findings), encoding="utf-8")
    ctx.transaction.add("page.html", path)
    return ctx.keep("validation.html", path)


def _rejection(ctx: StageContext, failed: Sequence[Check], count: int, page: str) -> DataRejected:
    lines = "\n".join(f"- {_line(check)}" for check in failed)
    return DataRejected(
        f"{ctx.request.data_date}: {len(failed)} of {count} checks failed\n{lines}",
        remedy=f"read {page} in the store; correct the data and run again, or change the rule",
    )


def _line(check: Check) -> str:
    where = f"column {check.column}" if check.column else "all rows"
    return f"{check.day} {where}: {check.rule}: {check.observed}; allowed: {check.allowed} ({check.key})"


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
