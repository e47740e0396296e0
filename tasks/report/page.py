"""The page of a run: one HTML file that needs nothing else, from whatever of the run there is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ratchet.contracts.gate import LOWER_IS_BETTER, family
from ratchet.contracts.request import Outcome, StageRequest
from ratchet.contracts.stages import STAGES, Stage
from ratchet.contracts.summaries import Judgement, Registration, Snapshot, Split, TrainedModel, Validation
from ratchet.pages import words
from tasks.report import charts

_FOLDER = Path(__file__).parent
_CONSTANT = "constant."


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is known of a run. Anything may be missing, since a run can stop anywhere.

    numbers: the evaluation's metrics by name. unlabelled: rows dropped without a label.
    """

    request: StageRequest
    outcomes: Mapping[Stage, Outcome] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    validation: Validation | None = None
    trained: TrainedModel | None = None
    judged: Judgement | None = None
    registered: Registration | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    unlabelled: int = 0
    split: Split | None = None


def render(told: Told) -> str:
    """The page. Whatever comes from data, from people or from errors is escaped."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": words.percent, "seconds": words.seconds, "interval": words.interval}
    judged, trained = told.judged, told.trained
    return environment.get_template("report.html").render(
        css=Markup(files("ratchet.pages").joinpath("page.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
        told=told,
        spec=told.request.spec,
        day=told.request.data_date,
        headline=words.headline(told.outcomes, judged, told.registered),
        judged=judged,
        trained=trained,
        gain=charts.gain(judged) if judged else None,
        table=metric_table(judged, told.numbers) if judged else [],
        slices=charts.slices(judged.slices, told.request.spec.gate.max_slice_loss)
        if judged and judged.slices
        else None,
        losses=charts.losses(trained.epochs, trained.best_epoch) if trained and trained.epochs else None,
        curve=charts.metric(trained.epochs, trained.best_epoch) if trained and trained.epochs else None,
        days=charts.days(rows, roles(told)) if (rows := _rows(told)) else None,
        total=sum(rows.values()),
        failed=_checks(told.validation, "error"),
        warned=_checks(told.validation, "warning"),
        passed=sum(check.passed for check in told.validation.checks) if told.validation else 0,
        lineage=lineage(told),
        stages=[told.outcomes[stage] for stage in STAGES if stage in told.outcomes],
        bars=charts.stage_bars([(one.stage, one.seconds, _kind(one)) for one in told.outcomes.values()]),
        taken=sum(one.seconds for one in told.outcomes.values()),
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One metric of all that were measured. best: `candidate`, `baseline`, or empty."""

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
        sign = -1 if family(name) in LOWER_IS_BETTER else 1
        best = "" if other is None or other == value else "candidate" if sign * (value - other) > 0 else "baseline"
        constant = numbers.get(f"{_CONSTANT}{name}")
        if constant is None and judged.baseline_kind == "constant":
            constant = judged.baseline_metrics.get(name)
        lines.append(Line(name, value, other, constant, best, name == judged.metric))
    return sorted(lines, key=lambda line: not line.decisive)


def lineage(told: Told) -> list[tuple[str, str]]:
    """What made what, as names and values."""
    request, found = told.request, []
    if told.snapshot:
        found.append(("Snapshot", f"{told.snapshot.table} version {told.snapshot.version}"))
    if told.trained:
        found.append(("Model", told.trained.digest))
    if told.registered:
        found.append(("Registered as", f"{told.registered.model} version {told.registered.version}"))
        found.append(("MLflow run", told.registered.mlflow_run_id))
    if told.judged:
        baseline = told.judged.baseline
        named = "a constant, as there was no champion"
        if baseline:
            named = f"version {baseline.version}, data up to {baseline.data_date}, model {baseline.digest[:12]}"
        found.append(("Measured against", named))
    pins = request.pins
    found += [
        ("Pipeline bundle", request.bundle.sha256),
        ("Commit", pins.commit),
        ("Image", pins.image if pins.image != "process" else "none, stages ran as processes"),
        ("Python", pins.python),
        (
            "Libraries",
            ", ".join(f"{name} {version}" for name, version in sorted(pins.libraries.items())) or "not pinned",
        ),
        ("Seed", str(request.spec.train.seed)),
        ("Run", f"{request.run_id} ({request.kind})"),
    ]
    if request.overrides:
        found.append(("Overrides", ", ".join(f"{key}={value}" for key, value in sorted(request.overrides.items()))))
    return found


def roles(told: Told) -> dict[date, str]:
    """What each day was used for."""
    split = told.split
    used: dict[date, str] = {}
    if split:
        for role, days in (("train", split.train), ("valid", split.valid), ("holdout", split.holdout)):
            used |= dict.fromkeys(days, role)
    return used | dict.fromkeys(told.validation.excluded if told.validation else (), "excluded")


def _rows(told: Told) -> dict[date, int]:
    if told.validation:
        return dict(told.validation.rows)
    return {day.day: day.file.rows or 0 for day in told.snapshot.days} if told.snapshot else {}


def _checks(validation: Validation | None, severity: str) -> Sequence[object]:
    checks = validation.checks if validation else ()
    return [check for check in checks if not check.passed and check.severity == severity]


def _kind(outcome: Outcome) -> str:
    return "failed" if outcome.state == "failed" else "cached" if outcome.cached else "built"
