"""Every check of the data date."""

from collections.abc import Mapping
from datetime import date

from ratchet.contracts.pipeline import PipelineSpec
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.summaries import Check
from ratchet.runtime.context import StageContext
from ratchet.store.artifacts import fetch
from tasks.validate.categories import check_categories
from tasks.validate.drift import Drifts, Reference, check_drift
from tasks.validate.duplicates import check_copy, check_redelivery
from tasks.validate.expectations import check_expectations
from tasks.validate.label_rate import Rates, check_label_rate, immature, rates
from tasks.validate.leak import check_leak
from tasks.validate.profile import Profile
from tasks.validate.repeats import check_unique
from tasks.validate.rules import check_columns
from tasks.validate.slice_volume import check_slices
from tasks.validate.sudden_constant import check_constants
from tasks.validate.times import check_times
from tasks.validate.volume import check_volume


def check_data_date(
    ctx: StageContext, snapshot: Snapshot, today: Profile, reference: Reference
) -> tuple[list[Check], Drifts]:
    """Run every check of the data date. Returns the checks, and the drift of its features."""
    day, spec, rules = ctx.request.data_date, ctx.spec, ctx.spec.validate_
    days = {**reference.days, day: today}
    has_labels = not immature(spec, day, day)
    part = next(part for part in snapshot.days if part.day == day)
    checks = [check_copy(snapshot, day)]
    checks += check_columns(day, today, spec, is_data_date=True, has_labels=has_labels)
    checks += check_unique(day, today, rules.unique)
    if rules.times:
        checks += check_times(day, days, part.zones, spec, rules.times)
    if rules.duplicates:
        checks += check_redelivery(day, days, rules.duplicates)
    if rules.volume:
        checks += check_volume(day, today, reference.days, rules.volume, spec.label if has_labels else None)
        checks += check_slices(day, today, reference.days, rules.volume, spec)
    if rules.label_rate and has_labels:
        found = {one: rates(profile, spec) for one, profile in days.items()}
        checks += check_label_rate(day, found, spec, rules.label_rate)
    if rules.leak and has_labels:
        checks += check_leak(day, today, reference.days, spec, rules.leak)
    if rules.constants:
        checks += check_constants(day, today, reference.days, spec, rules.constants)
    checks += check_categories(day, today, reference.days, reference.first, spec)
    drifts = Drifts()
    if rules.drift:
        drifted, drifts = check_drift(day, today, reference, rules.drift, spec)
        checks += drifted
    if rules.expectations:
        with ctx.phase("expectations"):
            checks += check_expectations(day, fetch(ctx.store, part.file, ctx.disk), rules.expectations)
    return checks, drifts


def check_earlier_days(
    profiles: Mapping[date, Profile], data_date: date, spec: PipelineSpec
) -> dict[date, list[Check]]:
    """The failed checks, by day, of those that an earlier day has to pass to stay in the window.

    Its labels had not all arrived on its own night if label_delay_days says so, so their rate is judged now.
    """
    rules = spec.validate_
    mature: dict[date, Rates] = {}
    if rules.label_delay_days and rules.label_rate:
        mature = {day: rates(found, spec) for day, found in profiles.items() if not immature(spec, data_date, day)}
    failed = {}
    for day, found in profiles.items():
        if day == data_date:
            continue
        has_labels = not immature(spec, data_date, day)
        checks = check_columns(day, found, spec, is_data_date=False, has_labels=has_labels)
        checks += check_unique(day, found, rules.unique)
        if day in mature and rules.label_rate:
            checks += check_label_rate(day, mature, spec, rules.label_rate)
        failed[day] = [check for check in checks if check.severity == "error" and not check.passed]
    return failed
