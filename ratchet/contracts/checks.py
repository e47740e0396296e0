"""The keys of the checks that the data must pass before training."""

from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from ratchet.contracts.document import Document
from ratchet.contracts.quantities import Fraction


class Volume(Document):
    """The number of rows of the data date, compared with earlier days. On by default; `null` switches the check off."""

    against: Literal["previous_day", "same_weekday", "window_median"] = Field(
        "previous_day",
        description="What to compare with: the day before, the median of the same weekday in the window, or the median "
        "of the window.",
    )
    tolerance: Fraction = Field(0.2, description="The largest relative difference allowed, up or down.")


class Drift(Document):
    """The population stability index (PSI) of each feature, between the data date and a reference.

    On by default; `null` switches the check off.
    """

    against: Literal["champion", "window"] = Field(
        "champion",
        description="The reference: the data that the champion was trained on (the window, if there is no champion), "
        "or the window.",
    )
    psi: float = Field(0.2, gt=0, description="The largest PSI allowed. 0.1 is a shift, 0.25 a large one.")
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
        description="What to do with an earlier day that breaks a rule: exclude drops it from the window, fail stops "
        "the run.",
    )
