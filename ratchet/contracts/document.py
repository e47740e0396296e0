"""The base of every typed document: keyword-only and frozen; it refuses unknown keys."""

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A typed document that crosses a process boundary or comes from a person."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
