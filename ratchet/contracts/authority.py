"""Who decides about production: the findings that stop a run, and the people who approve.

The ledger decides, and the registry's alias follows it. A finding is a state of the two in which no run may go on as if
all was well.
"""

import unicodedata
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from pydantic import Field

from ratchet.contracts.document import Document

FindingName = Literal["ledger-lost", "ledger-behind", "ledger-damaged", "registry-behind", "foreign-alias"]


class Finding(Document):
    """Why ledger and registry do not allow a decision about production, and what a person can do."""

    name: FindingName
    explanation: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.explanation}; to do: {self.remedy}"


class Approval(Document):
    """A person's yes to a promotion."""

    name: str = Field(min_length=1)
    at: datetime
    how: str = Field("", description="Where the person answered, as `airflow` or `ratchet promote`.")


def same_person(one: str, other: str) -> bool:
    """Whether two names are of one person: case, spaces and ways to write a letter make no difference."""
    return _person(one) == _person(other)


def people(names: Iterable[str]) -> list[str]:
    """The names of different people, each as it was first given, without spaces around it; an empty one is nobody."""
    found: dict[str, str] = {}
    for name in names:
        if who := _person(name):
            found.setdefault(who, name.strip())
    return [*found.values()]


def _person(name: str) -> str:
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())
