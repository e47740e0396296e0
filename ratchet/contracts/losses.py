"""How much of a second metric a candidate may lose: `1%` of the champion's value, or `{absolute: 0.005}`."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema, model_validator

from ratchet.contracts.document import Document
from ratchet.contracts.quantities import parse_fraction, show_fraction


class Loss(Document):
    """The largest loss allowed. absolute: in the metric's own unit, for a metric that may be close to 0."""

    relative: float | None = None
    absolute: float | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.relative is None) == (self.absolute is None):
            raise ValueError("a loss is a share such as 1%, or {absolute: 0.005}")
        return self

    def share(self, baseline: float) -> float:
        """The loss relative to a baseline's value, as a gain is; over a baseline of 0, absolute as well."""
        if self.relative is not None:
            return self.relative
        return float(self.absolute or 0.0) / (abs(baseline) or 1.0)


def _read(value: object) -> object:
    if isinstance(value, Loss):
        return value
    if isinstance(value, dict):
        absolute = value.get("absolute")
        if set(value) != {"absolute"} or isinstance(absolute, bool) or not isinstance(absolute, int | float):
            raise ValueError(f"{value!r} is no loss; write 1%, or {{absolute: 0.005}}")
        if absolute < 0:
            raise ValueError(f"{absolute!r} is below 0; write the largest loss, as in {{absolute: 0.005}}")
        return Loss(absolute=float(absolute))
    return Loss(relative=parse_fraction(value))


def _show(value: Loss) -> Any:
    return {"absolute": value.absolute} if value.relative is None else show_fraction(value.relative)


LossKey = Annotated[
    Loss,
    BeforeValidator(_read),
    PlainSerializer(_show),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "number"]},
                {"type": "object", "properties": {"absolute": {"type": "number"}}, "additionalProperties": False},
            ],
            "examples": ["1%"],
        }
    ),
]
"""A loss as people write it."""
