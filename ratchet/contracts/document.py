"""The base of every typed document: keyword-only, frozen, unknown keys refused, each key by the name that it has."""

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A typed document that crosses a process boundary or comes from a person."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
