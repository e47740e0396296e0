"""What `ratchet doctor` found out about one thing."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """One thing that was looked at. well: None for what could not be checked. text: what is so, and what to do."""

    name: str
    well: bool | None
    text: str


def problems(found: Iterable[Diagnosis]) -> list[str]:
    """The texts of what is not well or could not be checked."""
    return [one.text for one in found if not one.well]
