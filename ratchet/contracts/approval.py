"""The answers of people to the question whether a better candidate goes into production, and whether they suffice.

A change here violates the promise of the project when a model goes into production that needs a person's yes and has
none: of nobody, of somebody who is not asked, of one person where two have to agree, or about another candidate.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from ratchet.contracts.authority import same_person
from ratchet.contracts.document import Document
from ratchet.contracts.gate import Register
from ratchet.contracts.result import Sha256


class Answer(Document):
    """One answer. Stored at `paths.answer`, by the process that asked."""

    pipeline: str
    run_id: str
    number: int = Field(ge=1, description="Counts the answers of the run, in the order in which they were given.")
    answer: Literal["yes", "no"]
    by: str = Field(description="The person, as Airflow names them; empty if nobody answered in time.")
    at: datetime
    text: str = Field("", description="What the person wrote with it.")
    evaluation: Sha256 = Field(description="The content of the evaluation that was asked about.")

    @property
    def line(self) -> str:
        """The answer for people: `yes of ada at 2026-11-21 08:12 UTC: looks fine`."""
        who = f"{self.answer} of {self.by}" if self.by else "no answer in time, which is a no,"
        return f"{who} at {self.at:%Y-%m-%d %H:%M %Z}{f': {self.text}' if self.text else ''}"


class RecordedAnswer(Answer):
    """One answer as it is stored, with copies of those before it, so that a page reads only the newest."""

    earlier: tuple[Answer, ...] = Field((), description="Empty in what releases before have recorded.")


def approvals(answers: Sequence[Answer], evaluation: str) -> tuple[Answer, ...]:
    """The first yes of each person about this evaluation, after the last no."""
    about = [one for one in answers if one.evaluation == evaluation]
    refused = max((place for place, one in enumerate(about) if one.answer == "no"), default=-1)
    first: dict[str, Answer] = {}
    for one in about[refused + 1 :]:
        if one.by and not any(same_person(one.by, name) for name in first):
            first[one.by] = one
    return tuple(first.values())


def why_not_counted(by: str, register: Register, *, started_by: str, earlier: Sequence[Answer]) -> str:
    """Why the yes of a person does not count; empty if it does. earlier: the approvals so far."""
    if not by:
        return "a yes of nobody is no answer"
    if register.approvers and by not in register.approvers:
        return f"{by} is not in register.approvers ({', '.join(register.approvers)})"
    if register.approvals > 1 and same_person(by, started_by):
        return f"{by} started the run, and two other people have to approve it (register.approvals)"
    if any(same_person(one.by, by) for one in earlier):
        return f"{by} has approved already, and another person has to approve, too (register.approvals)"
    return ""


def counted(answers: Sequence[Answer], register: Register, *, started_by: str, evaluation: str) -> tuple[Answer, ...]:
    """The approvals that count, in their order."""
    found: list[Answer] = []
    for one in approvals(answers, evaluation):
        if not why_not_counted(one.by, register, started_by=started_by, earlier=found):
            found.append(one)
    return tuple(found)


def why_not_approved(answers: Sequence[Answer], register: Register, *, started_by: str, evaluation: str) -> str:
    """Why a candidate may not go into production; empty if enough people have said yes to it."""
    given = counted(answers, register, started_by=started_by, evaluation=evaluation)
    if len(given) >= register.approvals:
        return ""
    about = [one for one in answers if one.evaluation == evaluation]
    if about and about[-1].answer == "no":
        return f"the last answer is {about[-1].line}"
    if not given:
        return "nobody who may approve it has approved it"
    return f"{given[0].by} has approved it, and a second person has to (register.approvals)"
