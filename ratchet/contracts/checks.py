"""The keys of the checks that the data must pass before training."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from ratchet.contracts.document import Document
from ratchet.contracts.misfits import Misfit
from ratchet.contracts.quantities import Tolerance


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


class Drift(Document):
    """The population stability index (PSI) of each feature of the source, between the data date and a reference.

    On by default; `null` switches the check off. A feature that has one value a day, such as the month, is compared by
    days: a new value is a warning.
    """

    against: Literal["champion", "window"] = Field(
        "champion",
        description="The reference: the data that the champion was trained on (the window, if there is no champion), "
        "or the window. What cannot be compared has a warning.",
    )
    psi: float = Field(
        0.2,
        gt=0,
        description="The largest PSI allowed. 0.1 is a shift, 0.25 a large one. A day may exceed it by as much as so "
        "few rows can by chance, and as the days of the window do among themselves.",
    )
    on_breach: Literal["fail", "warn"] = Field(
        "fail", description="What to do above the limit: stop the run, or log a warning and go on."
    )


class Expectation(Document):
    """An expectation of great-expectations, by its name, with its arguments."""

    model_config = ConfigDict(extra="allow")
    type: str = Field(pattern=r"^expect_[a-z_]+$", description="The name of the expectation.")

    def arguments(self) -> dict[str, Any]:
        """The arguments of the expectation, as written."""
        return dict(self.model_extra or {})

    __pydantic_extra__: dict[str, JsonValue]


class Validate(Document):
    """The checks of a day. The rules for single columns are in `columns`."""

    volume: Volume | None = Field(default_factory=Volume)
    drift: Drift | None = Field(default_factory=Drift)
    expectations: tuple[Expectation, ...] = Field(
        (), description="Expectations of great-expectations, each by its name (`type`) with its arguments."
    )
    bad_days: Literal["exclude", "fail"] = Field(
        "exclude",
        description="What to do with an earlier day that breaks a rule, or that its own run refused: exclude drops it "
        "from the window, fail stops the run.",
    )


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
