"""Which attempt at its held-out days a candidate is, and the confidence that is left for it.

Each held-out day has one error budget, 1 - gate.confidence. With `evaluate.holdout_days` k, k nights share a day, and
each night has a k-th of the budget. Its first attempt spends 90 % of that. Every later attempt at the same days spends
of the rest: 10 % * 6 / (pi^2 j^2) for the j-th of them, which never adds up to more than 10 %. So all attempts together
promote a model that is no better with probability 1 - confidence at most (Bonferroni; the series is alpha spending
without an end, as in Foster and Stine 2008, Alpha-investing).

A change here violates the promise of the project when the attempts at one day can spend more than its budget.
"""

import math
from datetime import date

from pydantic import Field

from ratchet.contracts.document import Document

FIRST = 0.9
"""The share of a night's budget that its first attempt spends. The first night loses hardly any power by it."""


class Repetition(Document):
    """An attempt at held-out days. number: 1 for the first; nights: how many nights share each of the days."""

    number: int = Field(1, ge=1, description="Which attempt at these held-out days this is, over all runs.")
    nights: int = Field(1, ge=1, description="How many nights share each held-out day.")

    def level(self, confidence: float) -> float:
        """The confidence that the bound of this attempt needs, so that all of them keep the gate's confidence."""
        return 1 - (1 - confidence) * self.share

    @property
    def share(self) -> float:
        """The share of the error budget that this attempt spends."""
        later = self.number - 1
        rest = (1 - FIRST) * 6 / (math.pi * later) ** 2 if later else FIRST
        return rest / self.nights

    def parts(self) -> dict[str, str]:
        """What it adds to a fingerprint."""
        return {"repetition": f"{self.number} of {self.nights}"}


class HoldoutAttempt(Document):
    """One attempt at one held-out day, counted when it begins. Stored at `paths.holdout_attempt`, never changed."""

    candidate: str = Field(description="The digest of the model.")
    metric: str = Field(description="The metric that decides; another one is another attempt.")
    data_date: date = Field(description="The data date of the run.")
    nights: int = Field(ge=1, description="How many days the run holds out.")
    run_id: str = Field(description="The first run that made the attempt.")


def numbers(attempts: list[HoldoutAttempt]) -> list[int]:
    """The number of each attempt at one day, in the order in which they were made.

    The first attempt of a night that fits into the day's budget has number 1, as the other nights of the day have;
    every other attempt is one of the later ones, and these are counted together.
    """
    spent, later = 0.0, 1
    nights: set[date] = set()
    found = []
    for one in attempts:
        regular = one.data_date not in nights and spent + 1 / one.nights <= 1 + 1e-9
        nights.add(one.data_date)
        if regular:
            spent += 1 / one.nights
            found.append(1)
        else:
            later += 1
            found.append(later)
    return found
