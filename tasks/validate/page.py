"""The result page of a validation: one HTML file without references to others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ratchet.contracts.columns import Column
from ratchet.contracts.request import StageRequest
from ratchet.contracts.summaries import Check, Validation
from ratchet.pages import template
from tasks.validate import charts
from tasks.validate.examples import Examples
from tasks.validate.history import chart, measures
from tasks.validate.profile import ColumnProfile, Profile, column_of
from tasks.validate.rules import show

_HISTORY = 60
"""Days of a history at most: more would not be told apart."""
_TEMPLATE = Path(__file__).with_name("validation.html")


@dataclass(frozen=True, slots=True)
class Findings:
    """The content of the page.

    The checks, the profiles of the window's days, the reference with its name, and rows that break a rule.
    """

    validation: Validation
    days: Mapping[date, Profile]
    today: Profile
    reference: Profile
    reference_name: str
    examples: Sequence[Examples]


def render(request: StageRequest, findings: Findings) -> str:
    """The page. The same findings give the same bytes."""
    checks = findings.validation.checks
    return template.render(
        _TEMPLATE,
        name=request.spec.name,
        description=request.spec.description,
        day=request.data_date,
        today=findings.today,
        reference=findings.reference,
        reference_name=findings.reference_name,
        failed=[check for check in checks if not check.passed and check.severity == "error"],
        warned=[check for check in checks if not check.passed and check.severity == "warning"],
        passed=[check for check in checks if check.passed],
        excluded=findings.validation.excluded,
        days=len(findings.validation.rows),
        examples=findings.examples,
        before=_before(request, findings),
        changes=_changes(request, findings),
        volume=charts.volume(request.data_date, findings.validation),
        drift=_drift(request, findings.validation.psi),
        columns=_columns(request, findings),
    )


def _before(request: StageRequest, findings: Findings) -> date | None:
    """The newest day of the window before the data date."""
    return max((day for day in findings.days if day < request.data_date), default=None)


def _changes(request: StageRequest, findings: Findings) -> list[tuple[str, str, str, str]]:
    """The difference to the day before: column, measure, then and now. Measures that are the same are left out."""
    before, day = _before(request, findings), request.data_date
    if before is None:
        return []
    then, now = findings.days[before], findings.today
    rows = [("all rows", "rows", then.rows, now.rows), ("all rows", "with a label", then.labelled, now.labelled)]
    rows.append(("all rows", "repeat an earlier row", then.duplicates, now.duplicates))
    found = [(column, name, f"{one:,}", f"{two:,}") for column, name, one, two in rows if one != two]
    for name in now.columns:
        for measure in measures(name, {before: then, day: now}, request.spec):
            words = measure.words(before), measure.words(day)
            if words[0] != words[1]:
                found.append((name, measure.name, *words))
    return found


def _drift(request: StageRequest, psi: dict[str, float]) -> Markup | None:
    rule = request.spec.validate_.drift
    return charts.drift(psi, rule.psi) if rule and psi else None


def _columns(request: StageRequest, findings: Findings) -> list[dict[str, Any]]:
    """The template's values for each column."""
    failed: dict[str, list[Check]] = {}
    for check in findings.validation.checks:
        if not check.passed and check.column and check.day == request.data_date:
            failed.setdefault(check.column, []).append(check)
    rows = []
    newest = {day: findings.days[day] for day in sorted(findings.days)[-_HISTORY:]}
    for name, found in findings.today.columns.items():
        column = request.spec.columns[column_of(name)]
        reference = findings.reference.columns.get(name, ColumnProfile())
        rows.append(
            {
                "name": name,
                "role": column.role,
                "type": found.type or column.type,
                "failed": failed.get(name, []),
                "missing": found.missing_share,
                "missing_chart": charts.missing(found.missing_share, reference.missing_share),
                "range": _range(column, found),
                "distinct": f"{found.distinct:,}" if found.values else "",
                "psi": findings.validation.psi.get(name),
                "js": findings.validation.js.get(name),
                "psi_last_week": findings.validation.psi_last_week.get(name),
                "history": [
                    chart(measure, request.data_date)
                    for measure in measures(name, newest, request.spec)
                    if measure.has_changed
                ],
                "chart": charts.column(found, reference),
            }
        )
    return rows


def _range(column: Column, found: ColumnProfile) -> str:
    """The least and the greatest value; of a list how many values it has, of a vector how long it is."""
    if found.low is None:
        return ""
    ends = f"{show(found.low)} to {show(found.high)}"
    return f"{ends} values" if column.is_list else f"length {ends}" if column.is_vector else ends
