"""The keys of the checks that the data must pass before training."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, ModelWrapValidatorHandler, model_validator

from ratchet.contracts.document import Document
from ratchet.contracts.misfits import Misfit
from ratchet.contracts.quantities import Fraction, Tolerance

Breach = Literal["fail", "warn"]
"""What a broken rule does: it stops the run, or it is a warning in log, page and report."""


class Volume(Document):
    """The number of rows of the data date, and of rows with a label, compared with earlier days of the window.

    On by default; `null` switches the check off. A day without a day to compare with has a warning.
    """

    against: Literal["similar_days", "previous_day", "same_weekday", "window_median"] = Field(
        "similar_days",
        description="What to compare with. similar_days: the same weekday, and the trend of the newest days against "
        "their own weekdays; the range is wider if the days of the window differ more among themselves, so it fits "
        "weekly data and data that grow. previous_day: the day before. same_weekday: the median of the same "
        "weekday in the window, which needs more than 7 days. window_median: the median of the window.",
    )
    tolerance: Tolerance = Field(
        0.3, description="The largest relative difference allowed, up or down. From 100% on, only growth is limited."
    )
    by: tuple[str, ...] | None = Field(
        None,
        description="Columns whose values are counted by themselves: the rows of one country may vanish while the "
        "total holds. Categorical and bool columns, and those with `in`. Without it, those of them that "
        "evaluate.slices names, which only warn. The range is that of similar_days, and twice as wide.",
    )
    on_breach: Breach = Field("fail", description="What to do outside the range, of all rows or of a value.")


class Drift(Document):
    """How far each feature of the source has moved between a reference and the data date.

    The population stability index (PSI) has the limit; the Jensen-Shannon divergence is on the page beside it, and so
    is the PSI against the last week. On by default; `null` switches the check off. A feature that has one value a day,
    such as the month, is compared by days: a new value is a warning.
    """

    against: Literal["champion", "window", "last_week"] = Field(
        "champion",
        description="The reference: the data that the champion was trained on (the window, if there is no champion), "
        "the window, or the newest seven good days before the data date. What cannot be compared has a warning.",
    )
    psi: float = Field(
        0.2,
        gt=0,
        description="The largest PSI allowed. 0.1 is a shift, 0.25 a large one. A day may exceed it by as much as so "
        "few rows can by chance, and as the days of the window do among themselves.",
    )
    js: Fraction | None = Field(
        None,
        description="The largest Jensen-Shannon divergence allowed, from 0 (the same shares) to 1 (no value in "
        "common). Without it, it has no limit of its own.",
    )
    on_breach: Breach = Field(
        "fail", description="What to do above the limit: stop the run, or log a warning and go on."
    )


def _read_key(value: object) -> object:
    """A key as people write it: a column, a list of columns, or the whole document."""
    if isinstance(value, str):
        return Unique(columns=(value,))
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return Unique(columns=tuple(value))
    if isinstance(value, dict) and isinstance(value.get("columns"), list):
        return {**value, "columns": tuple(value["columns"])}  # in strict mode a list is no tuple
    return value


class Unique(Document):
    """A key: no two rows of a day have the same values in its columns. Rows that lack one of them are left out."""

    columns: tuple[str, ...] = Field(min_length=1, description="The columns of the key.")
    on_breach: Breach = Field("fail", description="What to do if two rows have the same key.")

    @property
    def name(self) -> str:
        """What a profile and a check call it."""
        return ", ".join(self.columns)


class Expectation(Document):
    """An expectation of great-expectations, by its name, with its arguments."""

    model_config = ConfigDict(extra="allow")
    type: str = Field(pattern=r"^expect_[a-z_]+$", description="The name of the expectation.")

    @model_validator(mode="wrap")
    @classmethod
    def _with_arguments(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Keep the arguments also where a stored document is read without the keys that its reader does not know."""
        made = handler(given)
        if made.model_extra is None and isinstance(given, dict):
            arguments = {key: value for key, value in given.items() if key not in cls.model_fields}
            object.__setattr__(made, "__pydantic_extra__", arguments)  # the document is frozen
        return made

    def arguments(self) -> dict[str, Any]:
        """The arguments of the expectation, as written."""
        return dict(self.model_extra or {})

    __pydantic_extra__: dict[str, JsonValue]


class Validate(Document):
    """The checks of a day. The rules for single columns are in `columns`."""

    volume: Volume | None = Field(default_factory=Volume)
    drift: Drift | None = Field(default_factory=Drift)
    times: Breach | None = Field(
        "fail",
        description="What to do if rows of the time column lie outside of their day (see source.timezone and "
        "source.day_starts), on a larger share of the rows than on the other days of the window. null: not checked.",
    )
    unique: tuple[Annotated[Unique, BeforeValidator(_read_key)], ...] = Field(
        (),
        description="Keys that no two rows of a day share: a column, a list of columns, or "
        "`{columns: [...], on_breach: warn}`.",
    )
    repeats: Breach | None = Field(
        "fail",
        description="What to do if far more rows of the data date than usual repeat an earlier row of it, or the value "
        "of an id. On other days it is a warning. null: not checked.",
    )
    duplicates: Breach | None = Field(
        "fail",
        description="What to do if an earlier day of the window has more of the data date's rows, ids or keys than "
        "days of the window share by nature. null: only a copy of another day's file is found.",
    )
    label_rate: Breach | None = Field(
        "fail",
        description="What to do if the mean of the label, or the share of a class, lies outside of what the days of "
        "the window have among themselves. null: not checked.",
    )
    label_delay_days: int = Field(
        0,
        ge=0,
        le=90,
        description="For how many days labels still arrive. The newest days, so many of them, are not judged by their "
        "labels, and are neither trained on nor held out. The label rate of a day is judged once it is older; one that "
        "is out of range is then a bad day.",
    )
    new_categories: Breach | None = Field(
        "warn",
        description="What to do if more rows than usual have a category that no earlier day of the window has. null: "
        "not checked.",
    )
    lost_categories: Breach | None = Field(
        "fail",
        description="What to do if a category with a share of the rows on each earlier day has none now. null: not "
        "checked.",
    )
    leak: Breach | None = Field(
        "fail",
        description="What to do if one feature alone predicts the label almost perfectly, and did not before. If it "
        "always did, it is a warning. null: not checked.",
    )
    constants: Breach | None = Field(
        "fail",
        description="What to do if a feature that varied on each earlier day has one value now. null: not checked.",
    )
    expectations: tuple[Expectation, ...] = Field(
        (), description="Expectations of great-expectations, each by its name (`type`) with its arguments."
    )
    bad_days: Literal["exclude", "fail"] = Field(
        "exclude",
        description="What to do with an earlier day that breaks a rule, or that its own run refused: exclude drops it "
        "from the window, fail stops the run.",
    )


SWITCHES = (
    *("volume", "drift", "times", "repeats", "duplicates", "label_rate", "new_categories", "lost_categories", "leak"),
    "constants",
)
"""The checks that `null` switches off."""

_WEEK = 7


def volume_compares(spec: Any) -> Iterator[Misfit]:
    """The rule for pipeline files: the volume check has a day to compare with in each window."""
    volume, days = spec.validate_.volume, spec.source.window_days
    if volume is not None and volume.against == "same_weekday" and days <= _WEEK:
        message = f"same_weekday never compares: a window of {days} days has no other day of the same weekday"
        remedy = f"set source.window_days to {_WEEK + 1} or more, or another against"
        yield Misfit(
            ("validate", "volume", "against"), message, "similar_days, previous_day, window_median", "", remedy
        )


def counts_values(column: Any) -> bool:
    """Whether the profile of a column counts its values."""
    return column.role == "categorical" or column.type == "bool" or column.allowed is not None


def keys_exist(spec: Any) -> Iterator[Misfit]:
    """The rule for pipeline files: columns of keys and of slices are columns of the source, of a kind that fits."""
    source = {name: column for name, column in spec.columns.items() if not column.derived}
    plain = [name for name, column in source.items() if not column.type.startswith("list")]
    for place, key in enumerate(spec.validate_.unique):
        yield from _known(("validate", "unique", place), getattr(_read_key(key), "columns", ()), plain)
    volume = spec.validate_.volume
    if volume is not None and volume.by is not None:
        counted = [name for name in plain if counts_values(source[name])]
        yield from _known(("validate", "volume", "by"), volume.by, counted)


def _known(key: tuple[str | int, ...], names: Any, allowed: list[str]) -> Iterator[Misfit]:
    for name in names:
        if name not in allowed:
            yield Misfit(
                key,
                f"{name} is no column that can be used here",
                ", ".join(allowed) or "none",
                *get_close_matches(name, allowed, n=1),
            )
