"""The page of a run, also of an incomplete one: one HTML file without references to others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from ratchet.contracts.gate import lower_is_better
from ratchet.contracts.refit import Refit
from ratchet.contracts.registration import Registration
from ratchet.contracts.request import Outcome, StageRequest
from ratchet.contracts.snapshot import Snapshot
from ratchet.contracts.stages import STAGES, Stage
from ratchet.contracts.summaries import Check, Judgement, Split, TrainedModel, Validation
from ratchet.pages import template
from ratchet.pages.rails import guard_lines, rival
from ratchet.pages.words import count
from ratchet.verdict.sentences import confidence
from tasks.report import charts
from tasks.report.headline import headline

_TEMPLATE = Path(__file__).with_name("report.html")
_CONSTANT = "constant."


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The facts of a run. Each may be missing, because a run can stop in any stage.

    numbers: the metrics of evaluate by name. unlabelled: rows that were dropped without a label. production: a sentence
    on what stays in production, empty where the ledger cannot be read. replaced: what the ledger says where the run's
    model is not in production. checks: the relative address of the validation
    page. derived_checks, derived_excluded: what features found out about derived columns, and the days that it left out
    for it. logs: the relative addresses of the stages' logs.
    """

    request: StageRequest
    outcomes: Mapping[Stage, Outcome] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    validation: Validation | None = None
    trained: TrainedModel | None = None
    refit: TrainedModel | None = None
    judged: Judgement | None = None
    registered: Registration | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    unlabelled: int = 0
    split: Split | None = None
    production: str = ""
    replaced: str = ""
    checks: str | None = None
    derived_checks: Sequence[Check] = ()
    derived_excluded: Sequence[date] = ()
    logs: Mapping[Stage, str] = field(default_factory=dict)


def render(facts: RunFacts) -> str:
    """The page. The same facts give the same bytes."""
    judged, trained, gate = facts.judged, facts.trained, facts.request.spec.gate
    rows, used = _rows(facts), roles(facts)
    return template.render(
        _TEMPLATE,
        facts=facts,
        spec=facts.request.spec,
        day=facts.request.data_date,
        headline=headline(facts.outcomes, judged, facts.registered, facts.replaced),
        judged=judged,
        trained=trained,
        gain=charts.gain(judged) if judged else None,
        table=metric_table(judged, facts.numbers) if judged else [],
        against=rival(judged) if judged else "",
        sure=confidence(judged.level or judged.confidence) if judged else "",
        guards=guard_lines(judged) if judged else [],
        slices=charts.slices(judged.slices, gate.max_slice_loss) if judged and judged.slices else None,
        losses=charts.losses(trained.evaluations, trained.best) if trained and trained.evaluations else None,
        kept=_kept(trained) if trained and trained.evaluations else "",
        curve=charts.metric(trained.evaluations, trained.best) if trained and trained.evaluations else None,
        days=charts.days(rows, used) if rows else None,
        roles=[(role, name) for role, name in charts.ROLES.items() if role in used.values()],
        total=sum(rows.values()),
        failed=_checks(facts, "error"),
        warned=_checks(facts, "warning"),
        passed=sum(check.passed for check in facts.validation.checks) if facts.validation else 0,
        excluded=[day for day, role in sorted(used.items()) if role == "excluded"],
        lineage=lineage(facts),
        stages=[facts.outcomes[stage] for stage in STAGES if stage in facts.outcomes],
        bars=charts.stage_bars([(one.stage, one.seconds, _kind(one)) for one in facts.outcomes.values()]),
        taken=sum(one.seconds for one in facts.outcomes.values()),
    )


def _kept(trained: TrainedModel) -> str:
    """Which weights, or trees, are the model."""
    if trained.trees is not None:
        of = f"The model has {count(int(trained.fall), 'round')} of trees, grown on all days but the held-out ones"
        return f"{of}: with as many the metric was best on the validation days." if trained.level else f"{of}."
    at = f"{trained.evaluations[trained.best - 1].epoch:.3g} epochs"
    if not trained.fall:
        return f"The weights after {at} were kept."
    if all(each.valid_metric is None for each in trained.evaluations):
        return "No validation metric could end it early; the learning rate fell to 0 at its end."
    return (
        f"The metric was best after {at}; from the weights at {trained.level:.3g} epochs the learning rate fell to 0 on"
        " all days but the held-out ones."
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of all models. best: `candidate`, `baseline`, or empty."""

    name: str
    candidate: float
    baseline: float | None
    constant: float | None
    best: str
    decisive: bool


def metric_table(judged: Judgement, numbers: Mapping[str, float]) -> list[Line]:
    """A line for each metric, the decisive one first."""
    against = judged.baseline_metrics if judged.baseline_kind == "champion" else {}
    lines = []
    for name, value in judged.candidate_metrics.items():
        other = against.get(name)
        sign = -1 if lower_is_better(name) else 1
        best = "" if other is None or other == value else "candidate" if sign * (value - other) > 0 else "baseline"
        constant = numbers.get(f"{_CONSTANT}{name}")
        if constant is None and judged.baseline_kind == "constant":
            constant = judged.baseline_metrics.get(name)
        lines.append(Line(name, value, other, constant, best, name == judged.metric))
    return sorted(lines, key=lambda line: not line.decisive)


def lineage(facts: RunFacts) -> list[tuple[str, str]]:
    """The origins of the model, as names and values."""
    request, found = facts.request, []
    if facts.snapshot:
        found.append(("Snapshot", facts.snapshot.origin))
    if facts.trained:
        found.append(("Measured model" if facts.refit else "Model", facts.trained.digest))
    found += _beginning(facts)
    if facts.refit and facts.refit.refit:
        found += _refit(facts.refit, facts.refit.refit)
    if facts.registered:
        found.append(("Registered as", f"{facts.registered.model} version {facts.registered.version}"))
        found.append(("MLflow run", facts.registered.mlflow_run_id))
    if facts.judged:
        baseline = facts.judged.baseline
        named = f"{rival(facts.judged)}, as there was no champion"
        if baseline:
            named = f"version {baseline.version}, data up to {baseline.data_date}, model {baseline.digest[:12]}"
        found.append(("Compared with", named))
    found += [("Answer", one.line) for one in request.approvals]
    admitted = request.days.counted(facts.snapshot) if facts.snapshot else ()
    found += [(f"{one.day} was let in", f"by {one.by}: {one.reason}") for one in admitted]
    pins = request.pins
    found += [
        ("Pipeline bundle", request.bundle.sha256),
        ("Commit", pins.commit),
        ("Image", pins.image if pins.image != "process" else "none: the stages ran as processes"),
        *(("Upgrade", f"{one.at:%Y-%m-%d %H:%M}: {one.line}") for one in request.upgrades),
        ("Python", pins.python),
        (
            "Libraries",
            ", ".join(f"{name} {version}" for name, version in sorted(pins.libraries.items())) or "not pinned",
        ),
        ("Seed", str(request.spec.train.seed)),
        ("Run", f"{request.run_id} ({request.kind})"),
    ]
    if request.started_by:
        found.append(("Started by", request.started_by))
    if request.overrides:
        found.append(("Overrides", ", ".join(f"{key}={value}" for key, value in sorted(request.overrides.items()))))
    return found


def _beginning(facts: RunFacts) -> list[tuple[str, str]]:
    """The model that the training began with, where the pipeline asks for one."""
    if facts.trained and (begun := facts.trained.warm_start):
        return [("Began with", begun.parent.title), ("Copied from it", begun.in_words)]
    return [("Began fresh", facts.request.fresh)] if facts.request.fresh else []


def _refit(made: TrainedModel, compared: Refit) -> list[tuple[str, str]]:
    days, metric = made.split.train, compared.metric
    both = (compared.score, compared.measured_score)
    scores = ", ".join("not known" if score is None else f"{score:.4f}" for score in both)
    return [
        ("Refit of it", made.digest),
        ("Refit on", f"{days[0]} to {days[-1]}, the held-out days too; its own score is not known"),
        ("Loss of refit, measured", f"{compared.loss:.4g}, {compared.measured_loss:.4g}"),
        (f"{metric} of refit, measured", f"{scores}; the refit was trained on the held-out days"),
        *((("Refused", compared.refused),) if compared.refused else ()),
    ]


def roles(facts: RunFacts) -> dict[date, str]:
    """The use of each day."""
    split = facts.split
    used: dict[date, str] = {}
    if split:
        for role, days in (("train", split.train), ("valid", split.valid), ("holdout", split.holdout)):
            used |= dict.fromkeys(days, role)
    excluded = (*(facts.validation.excluded if facts.validation else ()), *facts.derived_excluded)
    return used | dict.fromkeys(excluded, "excluded")


def _rows(facts: RunFacts) -> dict[date, int]:
    if facts.validation:
        return dict(facts.validation.rows)
    return {day.day: day.file.rows or 0 for day in facts.snapshot.days} if facts.snapshot else {}


def _checks(facts: RunFacts, severity: str) -> Sequence[Check]:
    """The failed checks of the rows, and those of derived columns."""
    checks = (*(facts.validation.checks if facts.validation else ()), *facts.derived_checks)
    return [check for check in checks if not check.passed and check.severity == severity]


def _kind(outcome: Outcome) -> str:
    return "failed" if outcome.state == "failed" else "cached" if outcome.cached else "built"
