"""A pipeline: the one typed document that a pipeline.yaml becomes."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from tasks.contracts.checks import Validate
from tasks.contracts.columns import Column, Role
from tasks.contracts.judging import DEFAULT_METRIC, METRICS, NAME, Evaluate, Gate, Register, family
from tasks.contracts.model import Document
from tasks.contracts.operations import DEFAULT_SETTINGS, STAGES, Alerts, Resources, Schedule, Stage, StageSettings
from tasks.contracts.source import Source
from tasks.contracts.training import Train

ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]
PARTITION = "date"
"""The snapshot's own column: the day that a row belongs to."""

_AT_MOST_ONE: tuple[Role, ...] = ("group", "time", "weight")


_DEFAULT_RESOURCES: dict[Stage, Document] = dict.fromkeys(STAGES, Resources())


def _filled(given: object, defaults: Mapping[Stage, Document]) -> object:
    """Every stage with every key: what is given, over the stage's defaults. Wrong types are left to pydantic."""
    if not isinstance(given, dict):
        return given
    filled: dict[object, object] = {stage: default.model_dump() for stage, default in defaults.items()}
    for stage, values in given.items():
        filled[stage] = (
            {**defaults[stage].model_dump(), **values} if stage in defaults and isinstance(values, dict) else values
        )
    return filled


class PipelineSpec(Document):
    """One pipeline, every default filled in."""

    name: str = Field(pattern=NAME, max_length=63, description="Its name everywhere: the DAG, the store, the registry.")
    description: str = Field("", description="One sentence for people.")
    owner: str = Field("ratchet", min_length=1, max_length=100, description="Who answers for it.")
    schedule: Schedule | None = Field(None, description="Without one, the pipeline runs only when triggered.")
    source: Source = Field(description="Where rows come from, day by day.")
    columns: dict[ColumnName, Column] = Field(
        min_length=1, description="The schema of a row, and what each column is for."
    )
    validate_: Validate = Field(default_factory=Validate, alias="validate")
    train: Train
    evaluate: Evaluate = Field(default_factory=Evaluate)
    gate: Gate = Field(default_factory=Gate)
    register_: Register = Field(default_factory=Register, alias="register")
    resources: dict[Stage, Resources] = Field(
        default_factory=lambda: _filled({}, _DEFAULT_RESOURCES),
        validate_default=True,
        description="What each stage's container may use.",
    )
    stages: dict[Stage, StageSettings] = Field(
        default_factory=lambda: _filled({}, DEFAULT_SETTINGS),
        validate_default=True,
        description="How each stage's failures are handled.",
    )
    alerts: Alerts = Field(default_factory=Alerts)

    @field_validator("resources", mode="before")
    @classmethod
    def _fill_resources(cls, given: object) -> object:
        return _filled(given, _DEFAULT_RESOURCES)

    @field_validator("stages", mode="before")
    @classmethod
    def _fill_settings(cls, given: object) -> object:
        return _filled(given, DEFAULT_SETTINGS)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = [*self._role_problems(), *self._judging_problems(), *self._window_problems()]
        if problems:
            raise SpecProblems(problems)
        return self

    def _role_problems(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        if PARTITION in self.columns:
            found.append((f"columns.{PARTITION}", "the snapshot keeps the day under this name; give it another"))
        labels = self.with_role("label")
        if len(labels) != 1:
            named = f", not {len(labels)} ({', '.join(labels)})" if labels else ""
            found.append(("columns", f"exactly one column needs role label{named}"))
        for role in _AT_MOST_ONE:
            first, *others = self.with_role(role) or ("",)
            found += [
                (f"columns.{name}.role", f"only one column may have role {role}; {first} has it") for name in others
            ]
        if not any(column.is_feature for column in self.columns.values()):
            found.append(("columns", "at least one column needs role numeric or categorical"))
        if self.train.objective == "ranking" and not self.with_role("group"):
            found.append(("train.objective", "ranking needs a column with role group (what is ranked together)"))
        if len(labels) == 1:
            found += self._label_problems(labels[0])
        return found

    def _label_problems(self, name: str) -> list[tuple[str, str]]:
        label, objective = self.columns[name], self.train.objective
        if objective == "binary" and label.type == "float64":
            return [(f"columns.{name}.type", "a binary label is 0 or 1; allowed: int64, bool")]
        if objective == "multiclass" and (label.type != "int64" or not label.allowed):
            return [(f"columns.{name}", "a multiclass label needs type int64 and its classes, as in `in: [0, 1, 2]`")]
        if objective == "multiclass" and set(label.allowed or ()) != set(range(len(label.allowed or ()))):
            return [(f"columns.{name}.in", "classes are numbered 0, 1, 2, ... without a gap")]
        return []

    def _judging_problems(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        metric = self.evaluate.metric
        if metric and family(metric) not in METRICS[self.train.objective]:
            allowed = ", ".join(METRICS[self.train.objective])
            found.append(
                ("evaluate.metric", f"{metric} does not measure a {self.train.objective} model; allowed: {allowed}")
            )
        for index, name in enumerate(self.evaluate.slices):
            if name not in self.columns or self.columns[name].role != "categorical":
                allowed = ", ".join(self.with_role("categorical")) or "none, as no column has role categorical"
                found.append((f"evaluate.slices.{index}", f"{name} is not a categorical column; allowed: {allowed}"))
        return found

    def _window_problems(self) -> list[tuple[str, str]]:
        held, valid, days = self.evaluate.holdout_days, self.train.valid_days, self.source.window_days
        needed = held + valid + 1
        if days >= needed:
            return []
        shares = f"{held} held out, {valid} for validation, 1 to train"
        return [("source.window_days", f"{days} days leave none to train on; at least {needed} are needed: {shares}")]

    def with_role(self, role: Role) -> tuple[str, ...]:
        """The columns that have a role, in the order of the file."""
        return tuple(name for name, column in self.columns.items() if column.role == role)

    @property
    def label(self) -> str:
        """The label's column."""
        return self.with_role("label")[0]

    @property
    def group(self) -> str | None:
        """The column of what is ranked together, if any."""
        return next(iter(self.with_role("group")), None)

    @property
    def metric(self) -> str:
        """What decides: evaluate.metric, or the objective's usual one."""
        return self.evaluate.metric or DEFAULT_METRIC[self.train.objective]

    @property
    def model_name(self) -> str:
        """The registered model's name."""
        return self.register_.model or self.name


class SpecProblems(ValueError):
    """Problems between keys: (dotted key, message) each. Raised inside validation, unpacked by `loading`."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{key}: {message}" for key, message in problems))
