"""A pipeline as a typed document: the content of a pipeline.yaml."""

from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from ratchet.contracts import dates
from ratchet.contracts.alerts import Alerts
from ratchet.contracts.checks import Validate
from ratchet.contracts.columns import FEATURES, LISTS, MEANING, Column, ColumnType, Role
from ratchet.contracts.columns_together import columns_fit
from ratchet.contracts.computing import computing
from ratchet.contracts.document import Document
from ratchet.contracts.fingerprint import flatten
from ratchet.contracts.gate import (
    DECISIVE,
    DEFAULT_METRIC,
    METRICS,
    NAME,
    Evaluate,
    Gate,
    OwnMetric,
    Register,
    family,
    own_metric,
)
from ratchet.contracts.gate_rules import GATE_RULES
from ratchet.contracts.joins import Join, joined_columns, joins_fit
from ratchet.contracts.kinds import BOOSTED
from ratchet.contracts.misfits import Misfit, Rule, SpecProblems, misfits
from ratchet.contracts.schedule import Schedule
from ratchet.contracts.source import Source
from ratchet.contracts.source_columns import source_columns_fit
from ratchet.contracts.stages import (
    DEFAULT_SETTINGS,
    REGULAR,
    STAGES,
    RegularStage,
    Resources,
    Stage,
    StageSettings,
    section,
)
from ratchet.contracts.time_zones import day_bounds
from ratchet.contracts.training import Train
from ratchet.contracts.window import cluster_fits, window_fits

ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]
PARTITION = "date"
"""The column that the snapshot adds: the day of a row."""

_AT_MOST_ONE: tuple[Role, ...] = ("group", "time", "weight")


_DEFAULT_RESOURCES: dict[RegularStage, Document] = dict.fromkeys(REGULAR, Resources())


def _fill_defaults(given: object, defaults: Mapping[RegularStage, Document]) -> object:
    """Fill in the stage's defaults for each key that is missing. pydantic reports wrong types."""
    if not isinstance(given, dict):
        return given
    filled: dict[object, object] = {stage: default.model_dump() for stage, default in defaults.items()}
    for stage, values in given.items():
        filled[stage] = (
            {**defaults[stage].model_dump(), **values} if stage in defaults and isinstance(values, dict) else values
        )
    return filled


class PipelineSpec(Document):
    """One pipeline, with all defaults filled in."""

    name: str = Field(pattern=NAME, max_length=63, description="The name of the DAG, in the store and in the registry.")
    description: str = Field("", description="A sentence about the pipeline.")
    owner: str = Field("ratchet", min_length=1, max_length=100, description="The responsible person or team.")
    schedule: Schedule | None = Field(None, description="When runs start. Without it, a person starts each run.")
    source: Source = Field(description="Where the rows come from, day by day.")
    columns: dict[ColumnName, Column] = Field(min_length=1, description=MEANING)
    joins: dict[ColumnName, Join] = Field(
        default_factory=dict,
        exclude_if=lambda joins: not joins,  # a pipeline without one has the digest that it had before there were joins
        description="Further sources, by a name: each row gets the newest of their rows at its time. "
        "[joins.md](joins.md) has an example.",
    )
    validate_: Validate = Field(default_factory=Validate, alias="validate")
    train: Train
    evaluate: Evaluate = Field(default_factory=Evaluate)
    gate: Gate = Field(default_factory=Gate)
    register_: Register = Field(default_factory=Register, alias="register")
    resources: dict[RegularStage, Resources] = Field(
        default_factory=lambda: _fill_defaults({}, _DEFAULT_RESOURCES),
        validate_default=True,
        description="What the container of each stage may use, by stage.",
    )
    stages: dict[RegularStage, StageSettings] = Field(
        default_factory=lambda: _fill_defaults({}, DEFAULT_SETTINGS),
        validate_default=True,
        description="Retries and time limits, by stage.",
    )
    alerts: Alerts = Field(default_factory=Alerts)

    @field_validator("resources", mode="before")
    @classmethod
    def _fill_resources(cls, given: object) -> object:
        return _fill_defaults(given, _DEFAULT_RESOURCES)

    @field_validator("stages", mode="before")
    @classmethod
    def _fill_settings(cls, given: object) -> object:
        return _fill_defaults(given, DEFAULT_SETTINGS)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        found = misfits(self, RULES)
        if found:
            raise SpecProblems(found)
        return self

    def with_role(self, role: Role) -> tuple[str, ...]:
        """The columns with a role, in the order of the file."""
        return tuple(name for name, column in self.columns.items() if column.role == role)

    @property
    def sequence(self) -> tuple[Stage, ...]:
        """The stages of its runs, in order."""
        return STAGES if self.train.refit else REGULAR

    def day_bounds(self, day: date) -> tuple[datetime, datetime]:
        """The first moment of a day of the source and that of the next one, in UTC."""
        timezone = self.source.timezone or (self.schedule.timezone if self.schedule else "UTC")
        return day_bounds(day, timezone, self.source.day_starts)

    def check_parts(self, data_date: date) -> dict[str, str]:
        """The parts of a fingerprint that the checks of a day depend on, beside the columns."""
        first, end = self.day_bounds(data_date)
        others = {
            "day": f"{first} to {end}, from {self.source.day_starts}",
            "zones": f"{self.source.timezone}, {self.schedule.timezone if self.schedule else None}",
            "train.objective": self.train.objective,
            "evaluate.slices": ", ".join(one.title for one in self.evaluate.slices),
        }
        return {**flatten(self.validate_, "config.validate"), **flatten(others, "config")}

    def holdout_window(self, data_date: date) -> tuple[date, ...]:
        """The newest days whose labels have arrived: those that are held out, oldest first."""
        newest = data_date - timedelta(days=self.validate_.label_delay_days)
        return tuple(dates.window(newest, self.evaluate.holdout_days))

    def resources_of(self, stage: Stage) -> Resources:
        """What the container of a stage may use; a refit what train may."""
        return self.resources[section(stage)]

    def settings_of(self, stage: Stage) -> StageSettings:
        """Retries and time limits of a stage; a refit has those of train."""
        return self.stages[section(stage)]

    @property
    def label(self) -> str:
        """The label's column."""
        return self.with_role("label")[0]

    @property
    def group(self) -> str | None:
        """The group column, if there is one."""
        return next(iter(self.with_role("group")), None)

    @property
    def metric(self) -> str:
        """The metric that decides: evaluate.metric, or the objective's default."""
        return self.evaluate.metric or DEFAULT_METRIC[self.train.objective]

    @property
    def own_metrics(self) -> dict[str, OwnMetric]:
        """The functions of the pipeline's folder that decide, guard, or have a floor, by the metric's name."""
        named = dict.fromkeys([self.metric, *self.gate.guards, *self.gate.floors])
        return {name: found for name in named if (found := own_metric(name))}

    @property
    def slice_columns(self) -> tuple[str, ...]:
        """The columns that evaluate.slices reads."""
        return tuple(sorted(set().union(*(one.columns for one in self.evaluate.slices))))

    @property
    def source_columns(self) -> dict[str, ColumnType]:
        """The columns that come from a source, in the file's order: those of the snapshot."""
        return {name: column.type for name, column in self.columns.items() if not column.derived}

    @property
    def joined_columns(self) -> dict[str, str]:
        """Those of them that come from a further source, each with the name of its join."""
        return joined_columns(self)

    @property
    def model_name(self) -> str:
        """The registered model's name."""
        return self.register_.model or self.name


def _columns_fit(spec: PipelineSpec) -> Iterator[Misfit]:
    yield from columns_fit(spec.columns)
    if PARTITION in spec.columns:
        yield Misfit(("columns", PARTITION), "the snapshot keeps the day under this name; rename the column")


def _roles(spec: PipelineSpec) -> dict[str, Role | None]:
    """The role of each column; None where the role is invalid."""
    return {name: getattr(column, "role", None) for name, column in spec.columns.items()}


def _columns_with(roles: Mapping[str, Role | None], *wanted: Role) -> list[str]:
    return [name for name, role in roles.items() if role in wanted]


def _roles_fit(spec: PipelineSpec) -> Iterator[Misfit]:
    roles = _roles(spec)
    all_known = None not in roles.values()
    labels = _columns_with(roles, "label")
    if len(labels) > 1 or (all_known and not labels):
        named = f", not {len(labels)} ({', '.join(labels)})" if labels else ""
        yield Misfit(("columns",), f"exactly one column needs role label{named}")
    for role in _AT_MOST_ONE:
        first, *others = _columns_with(roles, role) or ("",)
        for name in others:
            yield Misfit(("columns", name, "role"), f"only one column may have role {role}; {first} has it")
    if all_known and not _columns_with(roles, *FEATURES):
        yield Misfit(("columns",), "at least one column needs role numeric or categorical")
    if all_known and not _columns_with(roles, "group") and spec.train.objective == "ranking":
        message = "ranking needs a column with role group, to rank the rows of a group together"
        yield Misfit(("train", "objective"), message)
    elif all_known and not _columns_with(roles, "group") and spec.train.model.kind == "set":
        message = "set needs a column with role group, whose rows attend to each other"
        remedy = "give a column the role group, or take another kind, such as dcn"
        yield Misfit(("train", "model", "kind"), message, remedy=remedy)


def _groups_are_ranked(spec: PipelineSpec) -> Iterator[Misfit]:
    for name, column in spec.columns.items():
        make = getattr(column, "make", None)
        if make is not None and make.in_group is not None and spec.train.objective != "ranking":
            message = "in_group is of rankings: only their rows are scored a group at a time"
            yield Misfit(("columns", name, "make", "in_group"), message, remedy="set train.objective: ranking")


def _kind_reads_lists(spec: PipelineSpec) -> Iterator[Misfit]:
    several = [name for name, column in spec.columns.items() if getattr(column, "type", "") in LISTS]
    several = [name for name in several if getattr(spec.columns[name], "role", "") in FEATURES]
    if several and spec.train.model.kind == BOOSTED:
        message = f"lightgbm reads no lists and vectors, such as {several[0]}"
        yield Misfit(
            ("train", "model", "kind"), message, remedy="take another kind, or give the column the role ignore"
        )


def _label_fits(spec: PipelineSpec) -> Iterator[Misfit]:
    for name in _columns_with(_roles(spec), "label"):
        label, objective = spec.columns[name], spec.train.objective
        if objective == "binary" and label.type == "float64":
            yield Misfit(("columns", name, "type"), "a binary label is 0 or 1", "int64, bool")
        if objective == "multiclass" and (label.type != "int64" or not label.allowed):
            message = "a multiclass label needs type int64 and its classes, as in `in: [0, 1, 2]`"
            yield Misfit(("columns", name), message)
        elif objective == "multiclass" and set(label.allowed or ()) != set(range(len(label.allowed or ()))):
            yield Misfit(("columns", name, "in"), "classes must be 0, 1, 2, ... without a gap")


def _metric_fits(spec: PipelineSpec) -> Iterator[Misfit]:
    metric, objective = spec.evaluate.metric, spec.train.objective
    if metric and not own_metric(metric) and family(metric) not in METRICS[objective]:
        message = f"{metric} does not measure a {objective} model"
        yield Misfit(("evaluate", "metric"), message, ", ".join(DECISIVE[objective]))


RULES: tuple[Rule, ...] = (
    _columns_fit,
    source_columns_fit,
    _roles_fit,
    _groups_are_ranked,
    _kind_reads_lists,
    _label_fits,
    _metric_fits,
    *GATE_RULES,
    cluster_fits,
    window_fits,
    joins_fit,
    computing,
)
"""The rules between the keys of a pipeline."""
