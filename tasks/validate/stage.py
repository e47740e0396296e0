"""validate: is the data date fit to train on, and which earlier days are not?"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from importlib.metadata import version

from ratchet.contracts import paths, summaries
from ratchet.contracts.errors import CorruptArtifact, DataRejected
from ratchet.contracts.fingerprint import digest_of, fingerprint, flatten
from ratchet.contracts.summaries import Check, Snapshot, SnapshotDay, Validation
from ratchet.runtime.code import code_parts
from ratchet.runtime.context import Finished, StageContext
from ratchet.store.artifacts import fetch, read_json
from ratchet.store.publishing import Transaction, discard_damaged, published, read_manifest
from tasks.validate import profile
from tasks.validate.drift import check_drift
from tasks.validate.expectations import check_expectations
from tasks.validate.page import Findings, render
from tasks.validate.profile import Profile, measure, total
from tasks.validate.rules import check_columns
from tasks.validate.volume import check_volume

_PART = paths.day_part("validate")
_MOST_EXCLUDED = 0.5


def run(ctx: StageContext) -> Finished:
    """Check the window. Raises DataRejected that names every failed check; the result page is kept either way."""
    snapshot = summaries.snapshot(ctx.upstream("ingest"))
    today = ctx.request.data_date
    with ctx.phase("profiles"):
        profiles = _profiles(ctx, snapshot)
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
        checks, psi = _today(ctx, snapshot, profiles[today], good, (reference, name))
    severity = "warning" if ctx.spec.validate_.bad_days == "exclude" else "error"
    earlier = [check.model_copy(update={"severity": severity}) for failed in broken.values() for check in failed]
    checks += notes + earlier + _too_many(ctx, broken, before)
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
        raise _rejected(ctx, failed, len(checks), kept)
    for day in validation.excluded:
        ctx.log.event("excluded", f"{day} is left out: {_line(broken[day][0])}", level="warning")
    artifact = ctx.transaction.add_bytes("reference", summed.model_dump_json(by_alias=True).encode(), rows=summed.rows)
    return Finished(
        # Not the checks: what comes after depends on which days are good, not on how far from a limit they are.
        content=digest_of([[paths.day(day) for day in validation.excluded], artifact.sha256]),
        summary=validation,
        metrics=_metrics(validation, profiles[today]),
    )


def _today(
    ctx: StageContext,
    snapshot: Snapshot,
    today: Profile,
    good: Mapping[date, Profile],
    reference: tuple[Profile, str],
) -> tuple[list[Check], dict[str, float]]:
    """Every check of the data date, and the drift of its features."""
    day, rules = ctx.request.data_date, ctx.spec.validate_
    checks = [_not_a_copy(snapshot, day), *check_columns(day, today, ctx.spec, is_data_date=True)]
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


def _not_a_copy(snapshot: Snapshot, day: date) -> Check:
    """A day that is another day's file delivered twice."""
    digests = {part.day: part.file.sha256 for part in snapshot.days}
    twins = [other for other, sha256 in digests.items() if sha256 == digests[day] and other != day]
    return Check(
        day=day,
        rule="duplicate",
        passed=not twins,
        observed=f"the same rows as {twins[0]}" if twins else "rows of its own",
        allowed="rows that no other day has",
        key="source.uri",
    )


def _too_many(ctx: StageContext, broken: Mapping[date, Sequence[Check]], before: Mapping[date, Profile]) -> list[Check]:
    """More than half of the window left out is no longer the data that was asked for."""
    if len(broken) <= _MOST_EXCLUDED * (len(before) + 1):
        return []
    return [
        Check(
            day=ctx.request.data_date,
            rule="excluded days",
            passed=False,
            observed=f"{len(broken)} of {len(before) + 1} days break a rule",
            allowed="at most half of the window",
            key="validate.bad_days",
        )
    ]


def _reference(ctx: StageContext, summed: Profile, days: int) -> tuple[Profile, str, list[Check]]:
    """What drift is measured against, its name, and what a person should know about it. `summed`: the window's days."""
    rule, champion = ctx.spec.validate_.drift, ctx.request.champion
    window = f"the window's {days} other days"
    if rule is None or rule.against == "window" or champion is None or "validate" not in champion.manifests:
        return summed, window, []
    name = f"what {champion.model} version {champion.version} was trained on"
    try:
        result = read_manifest(ctx.store, champion.manifests["validate"]).result
        return read_json(ctx.store, result.outputs["reference"], Profile), name, []
    except (CorruptArtifact, KeyError) as error:
        gone = Check(
            day=ctx.request.data_date,
            rule="drift reference",
            passed=False,
            severity="warning",
            observed=f"{error.cause if isinstance(error, CorruptArtifact) else 'no profile'}; compared with {window}",
            allowed=name,
            key="validate.drift.against",
        )
        return summed, window, [gone]


def _profiles(ctx: StageContext, snapshot: Snapshot) -> dict[date, Profile]:
    """Every day's profile, from the cache or made now, oldest first."""
    common = {
        **code_parts("tasks.validate.profile"),
        **flatten(profile.parts(ctx.spec), "config.columns"),
        "library.polars": version("polars"),
        **{name: value for name, value in ctx.request.parts.items() if name == "rebuild"},
    }
    found: dict[date, Profile] = {}
    pool = ThreadPoolExecutor(max(2, int(ctx.spec.resources["validate"].cpus)))
    try:
        futures = {pool.submit(_profile, ctx, day, common): day.day for day in snapshot.days}
        for done, future in enumerate(as_completed(futures), start=1):
            found[futures[future]] = future.result()
            ctx.log.progress(f"profile of {futures[future]}", done=done, total=len(futures))
    finally:
        pool.shutdown(cancel_futures=True)
    return dict(sorted(found.items()))


def _profile(ctx: StageContext, day: SnapshotDay, common: Mapping[str, str]) -> Profile:
    identity = {**common, "input.file": day.file.sha256}
    prefix = paths.published(ctx.spec.name, _PART, fingerprint(identity))
    try:
        if (standing := published(ctx.store, prefix)) is not None:
            return read_json(ctx.store, standing.result.outputs["profile"], Profile)
    except CorruptArtifact as error:
        ctx.log.warning(error.cause)
        discard_damaged(ctx.store, prefix)
    scratch = ctx.disk / f"validate-{day.day}"
    scratch.mkdir()
    file = fetch(ctx.store, day.file, scratch)
    measured = measure(file, ctx.spec)
    if file.is_relative_to(scratch):
        file.unlink()
    transaction = Transaction(ctx.store, prefix, ctx.request.attempt)
    artifact = transaction.add_bytes("profile", measured.model_dump_json(by_alias=True).encode(), rows=measured.rows)
    transaction.commit(stage=_PART, fingerprint=fingerprint(identity), parts=identity, content=artifact.sha256)
    return measured


def _keep_page(ctx: StageContext, findings: Findings) -> str:
    """The result page: an output of the stage, and kept with the run even if the stage fails."""
    path = ctx.scratch / "validation.html"
    path.write_text(render(ctx.request, findings), encoding="utf-8")
    ctx.transaction.add("page.html", path)
    return ctx.keep("validation.html", path)


def _rejected(ctx: StageContext, failed: Sequence[Check], count: int, page: str) -> DataRejected:
    lines = "\n".join(f"- {_line(check)}" for check in failed)
    return DataRejected(
        f"{ctx.request.data_date}: {len(failed)} of {count} checks failed\n{lines}",
        remedy=f"look at {page} in the store; mend the data and run again, or change the rule",
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
