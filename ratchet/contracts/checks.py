"""What has to be true of the data before anything is trained."""

from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from ratchet.contracts.document import Document
from ratchet.contracts.quantities import Fraction


class Volume(Document):
    """Rows of the data date against what is usual."""

    against: Literal["previous_day", "same_weekday", "window_median"] = Field(
        "previous_day",
        description="The day before, the median of the same weekday in the window, or the window's median.",
    )
    tolerance: Fraction = Field(0.2, description="The largest relative difference allowed, up or down.")


class Drift(Document):
    """The population stability index of each feature: the data date against a reference."""

    against: Literal["champion", "window"] = Field(
        "champion", description="What production was trained on (the window where there is no champion), or the window."
    )
    psi: float = Field(0.2, gt=0, description="The largest index allowed; 0.1 is a shift, 0.25 a large one.")
    on_breach: Literal["fail", "warn"] = Field("fail", description="Stop the run, or say so and go on.")


class Expectation(Document):
    """Any great-expectations expectation, by its name, with its own arguments."""

    model_config = ConfigDict(extra="allow")
    type: str = Field(pattern=r"^expect_[a-z_]+$")

    def arguments(self) -> dict[str, Any]:
        """The expectation's own arguments, as written."""
        return dict(self.model_extra or {})

    __pydantic_extra__: dict[str, JsonValue]


class Validate(Document):
    """The rules for a day; those of single columns stand with the columns."""

    volume: Volume | None = Field(default_factory=Volume)
    drift: Drift | None = Field(default_factory=Drift)
    expectations: tuple[Expectation, ...] = Field((), description="Any great-expectations expectation, by its name.")
    bad_days: Literal["exclude", "fail"] = Field(
        "exclude",
        description="What an earlier day of the window does that breaks a column's rule: left out, or the run stops.",
    )
